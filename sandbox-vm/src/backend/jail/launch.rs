//! How the host starts the outer stage, and takes hold of the guest that it starts.

use std::{
    io,
    os::{fd::BorrowedFd, unix::net::UnixStream as StdStream},
    path::Path,
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    net::UnixStream,
    process::{Child, Command},
};

use super::{OuterPlan, handle::JailHandle};
use crate::{
    Error,
    backend::{Guest, fd_passing},
    cgroup::Cgroup,
    guest::{self, GuestArgs},
    limits::Limits,
    sandbox_dir::{Leftover, SandboxDir},
};

/// How long the outer stage has to say which process the guest is.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// What it says is no longer than this.
const MAX_LINE: u64 = 64;

/// What to do about a program that does not become a guest.
const ENTER_HINT: &str = "call `guest::enter` first in its `main`";

/// Who starts a guest.
#[derive(Clone, Copy, Debug)]
pub(in crate::backend) struct Launcher<'a> {
    pub(in crate::backend) backend: &'static str,
    /// The program that is both stages: it calls [`guest::enter`](crate::guest::enter) first.
    pub(in crate::backend) program: &'a Path,
}

/// A control group for a guest, noted in its sandbox directory before it is made.
pub(in crate::backend) fn create_cgroup(
    sandbox_dir: &SandboxDir,
    limits: &Limits,
) -> Result<Option<Cgroup>, Error> {
    sandbox_dir.record_leftovers(
        Cgroup::candidate_dirs(sandbox_dir.id()).into_iter().map(Leftover::Cgroup),
    )?;
    Ok(Cgroup::create(sandbox_dir.id(), limits))
}

/// Starts a guest in namespaces of its own, as an unprivileged user: `next` is what process 1 in them is to be, with
/// the channel as its standard input.
pub(in crate::backend) async fn launch(
    launcher: Launcher<'_>,
    cgroup: Option<Cgroup>,
    next: GuestArgs,
    sandbox_dir: &SandboxDir,
) -> Result<Guest, Error> {
    let (channel, handle) = launch_with_files(launcher, cgroup, next, &[], sandbox_dir).await?;
    Ok(Guest { channel: Box::new(channel), handle: Arc::new(handle) })
}

/// Like [`launch`], with open files that process 1 finds in its channel, before anything else.
pub(in crate::backend) async fn launch_with_files(
    launcher: Launcher<'_>,
    cgroup: Option<Cgroup>,
    next: GuestArgs,
    files: &[BorrowedFd<'_>],
    sandbox_dir: &SandboxDir,
) -> Result<(UnixStream, JailHandle), Error> {
    let start = |problem: String| Error::Start { backend: launcher.backend, problem };
    // Otherwise a program that forgot it would start itself without end.
    if guest::was_started_as_guest() {
        return Err(start(format!("this process is to be a guest itself; {ENTER_HINT}")));
    }
    let cgroup_files = cgroup.as_ref().map(Cgroup::procs_files).unwrap_or_default();
    let plan = OuterPlan { cgroup_files, next: Box::new(next) };
    let (host_side, guest_side) = StdStream::pair().map_err(Error::io("a pair of sockets"))?;
    if !files.is_empty() {
        fd_passing::send(&host_side, b"f", files).map_err(Error::io("the guest's open files"))?;
    }
    let mut child =
        spawn(launcher.program, plan, guest_side).map_err(|error| start(error.to_string()))?;
    let mut handle = JailHandle::new(launcher.backend, cgroup, child.stderr.take());
    if let Some(pid) = child.id() {
        sandbox_dir.record_leftovers(Leftover::process(pid))?;
    }
    let lifeline = child.stdout.take();
    handle.set_outer(child);
    let mut lifeline = BufReader::new(lifeline.ok_or_else(|| start("no lifeline".to_owned()))?);
    // The outer stage says which process the guest is, or dies trying.
    let mut line = String::new();
    let mut limited = (&mut lifeline).take(MAX_LINE);
    let read = tokio::time::timeout(START_TIMEOUT, limited.read_line(&mut line)).await;
    if read.is_err() || handle.attach_guest(&line, lifeline).is_err() {
        let diagnostics = handle.collect_diagnostics_and_kill().await;
        return Err(start(match diagnostics.is_empty() {
            true => format!("its program did not become a guest: {ENTER_HINT}"),
            false => diagnostics,
        }));
    }
    let channel = connect(host_side).map_err(Error::io("the channel to the guest"))?;
    Ok((channel, handle))
}

fn spawn(program: &Path, plan: OuterPlan, channel: StdStream) -> io::Result<Child> {
    let mut command = std::process::Command::new(program);
    GuestArgs::JailOuter(plan).apply(&mut command)?;
    // Nothing of the host's environment is any business of the guest.
    command.env_clear().current_dir("/");
    command.stdin(std::os::fd::OwnedFd::from(channel));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    Command::from(command).kill_on_drop(true).spawn()
}

fn connect(stream: StdStream) -> io::Result<UnixStream> {
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::PermissionsExt,
        process::{Child, Command},
    };

    use graph_core::checkpoint::CheckpointId;

    use crate::{
        backend::{Backend, Jail},
        sandbox_dir::SandboxDir,
        spec::Spec,
    };

    /// What is said of a script that is started as a guest, and knows nothing of that.
    async fn start(script: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("program");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let sandbox_dir =
            SandboxDir::create(dir.path(), &CheckpointId::next().to_string()).unwrap();
        let guest = Jail::program(program).start(&Spec::new("x"), &sandbox_dir).await;
        guest.unwrap_err().to_string()
    }

    #[tokio::test(start_paused = true)]
    async fn a_program_that_says_nothing_is_not_waited_for_without_end() {
        let said = start("exec sleep 1000").await;
        assert!(said.ends_with("call `guest::enter` first in its `main`"), "{said}");
    }

    #[tokio::test]
    async fn a_number_is_not_taken_for_a_guest() {
        let mut bystander = KillOnDrop(Command::new("sleep").arg("1000").spawn().unwrap());
        let said = start(&format!("echo {}", bystander.0.id())).await;
        assert!(said.contains("did not become a guest"), "{said}");
        assert!(bystander.0.try_wait().unwrap().is_none(), "it was killed");
    }

    #[tokio::test]
    async fn a_process_that_the_stage_did_not_start_is_no_guest() {
        let mut bystander = KillOnDrop(Command::new("sleep").arg("1000").spawn().unwrap());
        let said = start(&format!("echo guest {}; echo so it ended >&2", bystander.0.id())).await;
        assert!(said.contains("so it ended"), "{said}");
        assert!(bystander.0.try_wait().unwrap().is_none(), "it was killed");
    }

    /// A process that ends with the test.
    struct KillOnDrop(Child);

    impl Drop for KillOnDrop {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}
