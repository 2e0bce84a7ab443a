//! Guest in a container: the engine has set up the isolation; the agent restricts itself further and serves.

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

/// What the agent in the guest needs to know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InitPlan {
    pub(super) bounds: GuestLimits,
}

/// Restricts this process and serves on standard input and output until the host is done.
pub fn init(plan: &InitPlan, agent: Agent) -> Result<(), StageError> {
    let (reader, writer) = take_channel().map_err(StageError::new("take over its channel"))?;
    confine::confine_unprivileged(&plan.bounds).map_err(StageError::new("restrict itself"))?;
    exit_when_host_disconnects(&reader)
        .map_err(StageError::new("watch its channel for the end of the host"))?;
    let pair = || Ok((tokio::fs::File::from_std(reader), tokio::fs::File::from_std(writer)));
    serve_blocking(agent, pair).map_err(StageError::new("serve"))
}

/// Exits this process once the other end of its channel is closed. A graph that never yields keeps the agent from
/// noticing that, and unlike in the jail no outer stage of ours exists that could end the container.
fn exit_when_host_disconnects(channel: &File) -> io::Result<()> {
    let channel = channel.try_clone()?;
    let watch = move || {
        loop {
            // Poll for no events: hang-ups and errors are always reported.
            let mut watched = [PollFd::new(&channel, PollFlags::empty())];
            match poll(&mut watched, None) {
                Ok(_) => std::process::exit(0),
                Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    };
    thread::Builder::new().name("watch".to_owned()).spawn(watch).map(drop)
}

/// Moves the channel away from standard input and output, so that programs started later do not inherit it there.
fn take_channel() -> io::Result<(File, File)> {
    io::stdout().flush()?;
    let reader = io::stdin().as_fd().try_clone_to_owned()?;
    let writer = io::stdout().as_fd().try_clone_to_owned()?;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok((reader.into(), writer.into()))
}
