//! The agent of a guest in a container. The container engine has already set up the isolation. The agent restricts
//! itself further and then serves requests from the host.

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

use super::{confine, plan::AgentPlan, stage_error::StageError};
use crate::guest::{Agent, serve_blocking};

/// Restricts this process and serves requests on standard input and output until the host ends the session.
pub(crate) fn init(plan: &AgentPlan, agent: Agent) -> Result<(), StageError> {
    let (reader, writer) = take_channel().map_err(StageError::new("take over its channel"))?;
    confine::confine_unprivileged(&plan.bounds)?;
    exit_when_host_disconnects(&reader)
        .map_err(StageError::new("watch its channel for the end of the host"))?;
    let pair = || Ok((tokio::fs::File::from_std(reader), tokio::fs::File::from_std(writer)));
    serve_blocking(agent, pair).map_err(StageError::new("serve"))
}

/// Spawns an OS thread that exits this process once the host's end of the channel is closed. The agent itself cannot
/// detect the disconnect while a graph runs without yielding. A jail has an outer stage that ends the guest in this
/// case, but a container has none.
fn exit_when_host_disconnects(channel: &File) -> io::Result<()> {
    let channel = channel.try_clone()?;
    let watch = move || {
        loop {
            // No events are requested, because `poll` always reports hang-ups and errors.
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

/// Moves the channel away from standard input and output, so that programs started later do not inherit it as their own
/// standard input and output.
fn take_channel() -> io::Result<(File, File)> {
    io::stdout().flush()?;
    let reader = io::stdin().as_fd().try_clone_to_owned()?;
    let writer = io::stdout().as_fd().try_clone_to_owned()?;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok((reader.into(), writer.into()))
}
