//! How the host starts the outer stage, and takes hold of the guest that it starts.

use std::{io, os::unix::net::UnixStream as StdStream, path::Path, process::Stdio, sync::Arc};

use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::UnixStream,
    process::{Child, Command},
};

use super::{Stage, handle::JailHandle};
use crate::{
    Error,
    backend::Guest,
    berth::{Berth, Leftover},
    cgroup::Cgroup,
    guest::GuestArgs,
    limits::Limits,
};

/// Who starts a guest.
#[derive(Clone, Copy, Debug)]
pub(in crate::backend) struct By<'a> {
    pub(in crate::backend) backend: &'static str,
    /// The program that is both stages: it calls [`guest::enter`](crate::guest::enter) first.
    pub(in crate::backend) program: &'a Path,
}

/// A control group for a guest, noted in its berth before it is made.
pub(in crate::backend) fn group(berth: &Berth, limits: &Limits) -> Result<Option<Cgroup>, Error> {
    berth.note(Cgroup::folders_for(berth.id()).into_iter().map(Leftover::Cgroup))?;
    Ok(Cgroup::make(berth.id(), limits))
}

/// Starts a guest in namespaces of its own, as an unprivileged user: `next` is what process 1 in them is to be, with
/// the channel as its standard input.
pub(in crate::backend) async fn launch(
    by: By<'_>,
    cgroup: Option<Cgroup>,
    next: GuestArgs,
    berth: &Berth,
) -> Result<Guest, Error> {
    let start = |problem: String| Error::Start { backend: by.backend, problem };
    let groups = cgroup.as_ref().map(Cgroup::entries).unwrap_or_default();
    let stage = Stage { groups, next: Box::new(next) };
    let (ours, theirs) = StdStream::pair().map_err(Error::io("a pair of sockets"))?;
    let mut child = spawn(by.program, stage, theirs).map_err(|error| start(error.to_string()))?;
    let mut handle = JailHandle::new(by.backend, cgroup, child.stderr.take());
    if let Some(pid) = child.id() {
        berth.note(Leftover::process(pid))?;
    }
    let lifeline = child.stdout.take();
    handle.keep(child);
    let mut lifeline = BufReader::new(lifeline.ok_or_else(|| start("no lifeline".to_owned()))?);
    // The outer stage says which process the guest is, or dies trying.
    let mut line = String::new();
    let _ = lifeline.read_line(&mut line).await;
    if handle.tie(&line, lifeline).is_err() {
        let words = handle.gather_words().await;
        return Err(start(if words.is_empty() { "it ended at once".to_owned() } else { words }));
    }
    let channel = connect(ours).map_err(Error::io("the channel to the guest"))?;
    Ok(Guest { channel: Box::new(channel), handle: Arc::new(handle) })
}

fn spawn(program: &Path, stage: Stage, channel: StdStream) -> io::Result<Child> {
    let mut command = std::process::Command::new(program);
    GuestArgs::JailOuter(stage).apply(&mut command)?;
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
