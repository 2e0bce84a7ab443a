//! Starts the outer stage and opens the guest process that the outer stage starts.

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

use super::handle::JailHandle;
use crate::{
    Error,
    backend::{
        fd_passing,
        interface::Guest,
        plan::{self, GuestArgs, GuestLimits, JailPlan, OuterPlan},
    },
    cgroup::{Cgroup, Controller, Scope},
    sandbox_dir::{Leftover, SandboxDir},
    spec::{Image, Spec},
};

/// How long the outer stage may take to report the guest's process id.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// Maximum length in bytes of the line in which the outer stage reports the guest's process id.
const MAX_LINE: u64 = 64;

/// Advice in the error for a program that was started as a guest but did not call `guest::enter`.
const ENTER_HINT: &str = "call `guest::enter` first in its `main`";

/// The back end that starts a guest, and the program that the guest runs.
#[derive(Clone, Copy, Debug)]
pub(in crate::backend) struct Launcher<'a> {
    pub(in crate::backend) backend: &'static str,
    /// The program that runs both stages. It has to call [`guest::enter`](crate::guest::enter) before anything else.
    pub(in crate::backend) program: &'a Path,
}

/// Returns the settings of a guest that shares the host's programs. Fails if the guest needs another image.
///
/// If no control group limits the total memory of the guest, the plan limits the data segment of each process instead.
pub(in crate::backend) fn jail_plan(
    backend: &'static str,
    spec: &Spec,
    cgroup: Option<&Cgroup>,
) -> Result<JailPlan, Error> {
    if let Image::Named(_) = spec.image {
        return Err(Error::Unsupported { backend, operation: "use a named image" });
    }
    let is_limited = cgroup.is_some_and(|it| it.has(Controller::Memory));
    let data = (!is_limited).then_some(spec.limits.memory);
    Ok(JailPlan {
        image: spec.image.clone(),
        shared_dirs: spec.shared_dirs.clone(),
        bounds: GuestLimits::new(&spec.limits, data),
    })
}

/// Starts a guest in its own namespaces, as an unprivileged user. `next` specifies what process 1 of the namespaces
/// runs. That process gets the channel as its standard input.
pub(in crate::backend) async fn launch(
    launcher: Launcher<'_>,
    cgroup: Option<Cgroup>,
    next: GuestArgs,
    sandbox_dir: &SandboxDir,
) -> Result<Guest, Error> {
    let (channel, handle) = launch_with_files(launcher, cgroup, next, &[], sandbox_dir).await?;
    Ok(Guest { channel: Box::new(channel), handle: Arc::new(handle) })
}

/// Like [`launch`], but also passes open files to process 1, which receives them through its channel before any other
/// data.
pub(in crate::backend) async fn launch_with_files(
    launcher: Launcher<'_>,
    cgroup: Option<Cgroup>,
    next: GuestArgs,
    files: &[BorrowedFd<'_>],
    sandbox_dir: &SandboxDir,
) -> Result<(UnixStream, JailHandle), Error> {
    let start = |problem: String| Error::Start { backend: launcher.backend, problem };
    // Without this check, a program that does not call `guest::enter` would start itself in an endless loop.
    if plan::was_started_as_guest() {
        return Err(start(format!("this process was itself started as a guest; {ENTER_HINT}")));
    }
    let scope = cgroup.as_ref().and_then(|it| it.scope()).cloned();
    let cgroup_files = cgroup.as_ref().map(Cgroup::procs_files).unwrap_or_default();
    let plan = OuterPlan { cgroup_files, next: Box::new(next) };
    let (host_side, guest_side) =
        StdStream::pair().map_err(Error::io("cannot create a pair of sockets"))?;
    if !files.is_empty() {
        fd_passing::send(&host_side, b"f", files)
            .map_err(Error::io("cannot send the guest its open files"))?;
    }
    let mut child = spawn(launcher.program, scope.as_ref(), plan, guest_side)
        .map_err(|error| start(error.to_string()))?;
    let outer_pid = child.id();
    let mut handle = JailHandle::new(launcher.backend, cgroup, child.stderr.take());
    if let Some(pid) = outer_pid {
        sandbox_dir.record_leftovers(Leftover::process(pid))?;
    }
    let lifeline = child.stdout.take();
    handle.set_outer(child);
    let mut lifeline = BufReader::new(
        lifeline.ok_or_else(|| start("the outer stage has no standard output".to_owned()))?,
    );
    // The outer stage either reports the guest's process id or exits.
    let mut line = String::new();
    let mut limited = (&mut lifeline).take(MAX_LINE);
    let read = tokio::time::timeout(START_TIMEOUT, limited.read_line(&mut line)).await;
    if read.is_err() || handle.attach_guest(&line, lifeline).is_err() {
        let diagnostics = handle.collect_diagnostics_and_kill().await;
        return Err(start(match diagnostics.is_empty() {
            true => format!("its program did not become a guest; {ENTER_HINT}"),
            false => diagnostics,
        }));
    }
    if scope.zip(outer_pid).is_some_and(|(scope, pid)| !scope.limits_process(pid)) {
        handle.collect_diagnostics_and_kill().await;
        let problem = "the user's service manager did not limit the guest's memory as requested";
        return Err(start(problem.to_owned()));
    }
    let channel = connect(host_side).map_err(Error::io("cannot open the channel to the guest"))?;
    Ok((channel, handle))
}

fn spawn(
    program: &Path,
    scope: Option<&Scope>,
    plan: OuterPlan,
    channel: StdStream,
) -> io::Result<Child> {
    // The guest must not see the host's environment.
    let mut command = match scope {
        Some(scope) => scope.command(program),
        None => {
            let mut command = std::process::Command::new(program);
            command.env_clear();
            command
        }
    };
    command.args(GuestArgs::JailOuter(plan).to_args()?).current_dir("/");
    command.stdin(std::os::fd::OwnedFd::from(channel));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    Command::from(command).kill_on_drop(true).spawn()
}

fn connect(stream: StdStream) -> io::Result<UnixStream> {
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}
