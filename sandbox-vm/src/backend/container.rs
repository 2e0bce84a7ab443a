//! A guest whose walls an engine for containers has built: the agent closes its own doors behind itself and serves.

use std::{
    fs::File,
    io::{self, Write},
    os::fd::AsFd,
    thread,
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};
use serde::{Deserialize, Serialize};

use super::{
    confine::{self, GuestLimits},
    jail::StageError,
};
use crate::guest::{Agent, serve_blocking};

/// What the agent in the guest has to know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InitPlan {
    pub(super) bounds: GuestLimits,
}

/// Closes the guest's doors and serves on standard input and output until the host is done.
pub fn init(plan: &InitPlan, agent: Agent) -> Result<(), StageError> {
    let (reader, writer) = take_channel().map_err(StageError::new("take its channel"))?;
    confine::confine_unprivileged(&plan.bounds).map_err(StageError::new("close its doors"))?;
    exit_when_host_disconnects(&reader).map_err(StageError::new("watch its channel"))?;
    let pair = || Ok((tokio::fs::File::from_std(reader), tokio::fs::File::from_std(writer)));
    serve_blocking(agent, pair).map_err(StageError::new("serve"))
}

/// Ends this process once nobody holds the other end of its channel. A graph that never pauses keeps the agent from
/// reading that, and no stage of ours is around a container that would end it.
fn exit_when_host_disconnects(channel: &File) -> io::Result<()> {
    let channel = channel.try_clone()?;
    let watch = move || {
        loop {
            // Nothing is asked for but the end, of which one is always told.
            let mut ends = [PollFd::new(&channel, PollFlags::empty())];
            match poll(&mut ends, None) {
                Ok(_) => std::process::exit(0),
                Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    };
    thread::Builder::new().name("watch".to_owned()).spawn(watch).map(drop)
}

/// Nothing that is started later may find the channel in the usual places.
fn take_channel() -> io::Result<(File, File)> {
    io::stdout().flush()?;
    let reader = io::stdin().as_fd().try_clone_to_owned()?;
    let writer = io::stdout().as_fd().try_clone_to_owned()?;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok((reader.into(), writer.into()))
}
