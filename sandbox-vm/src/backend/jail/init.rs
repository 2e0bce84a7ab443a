//! The inner stage: process 1 of the guest builds its root, locks the door behind itself and serves.

use std::{
    fs::File,
    io,
    os::{fd::AsFd, unix::net::UnixStream as StdStream},
};

use rustix::{process::Signal, thread::CapabilitySet};
use tokio::net::UnixStream;

use super::{InitPlan, StageError, root};
use crate::{
    backend::confine::{self, GuestLimits},
    guest::{Agent, serve_blocking},
};

/// Builds the jail around this process and serves in it until the host is done.
pub fn init(plan: &InitPlan, agent: Agent) -> Result<(), StageError> {
    let channel = enter_root(plan)?;
    serve(&plan.bounds, channel, agent)
}

/// Builds the root around this process and gives it its channel; its doors are still open.
pub(in crate::backend) fn enter_root(plan: &InitPlan) -> Result<StdStream, StageError> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(StageError::new("end with its host"))?;
    let channel = take_channel().map_err(StageError::new("take its channel"))?;
    root::build(plan)?;
    rustix::system::sethostname(b"sandbox").map_err(StageError::new("take a host name"))?;
    Ok(channel)
}

/// Closes the doors of a guest whose root is built, and serves on the channel until the host is done.
pub(in crate::backend) fn serve(
    bounds: &GuestLimits,
    channel: StdStream,
    agent: Agent,
) -> Result<(), StageError> {
    confine::confine(bounds, CapabilitySet::empty()).map_err(StageError::new("close its doors"))?;
    let stream = || {
        channel.set_nonblocking(true)?;
        Ok(UnixStream::from_std(channel)?.into_split())
    };
    serve_blocking(agent, stream).map_err(StageError::new("serve"))
}

/// The channel is standard input; nothing that is started later may find it there.
pub(in crate::backend) fn take_channel() -> io::Result<StdStream> {
    let channel = io::stdin().as_fd().try_clone_to_owned()?;
    let null = File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    Ok(channel.into())
}
