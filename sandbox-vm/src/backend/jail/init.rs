//! The inner stage. Process 1 of the guest builds its root directory, restricts itself and serves requests from the
//! host.

use std::{
    fs::File,
    io,
    os::{fd::AsFd, unix::net::UnixStream as StdStream},
};

use rustix::{process::Signal, thread::CapabilitySet};
use tokio::net::UnixStream;

use super::root;
use crate::{
    backend::{
        confine,
        plan::{GuestLimits, JailPlan, MemoryEnforcement},
        stage_error::StageError,
    },
    guest::{Agent, agent_runtime, serve_on},
    meter::kernel_memory::KernelMeter,
};

/// Builds the jail around this process and serves requests in it until the host ends the session.
pub(crate) fn init(plan: &JailPlan, agent: Agent) -> Result<(), StageError> {
    // The jail's own `/proc` has no list of file locks, so open the list before the root directory is replaced.
    let locks = confine::open_proc_file("locks").ok();
    let channel = enter_root(plan)?;
    serve(&plan.bounds, channel, agent, locks)
}

/// Builds the root directory, switches this process to it, and returns the channel to the host. No restrictions are
/// applied yet.
pub(in crate::backend) fn enter_root(plan: &JailPlan) -> Result<StdStream, StageError> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(StageError::new("arrange to be killed when its parent ends"))?;
    let channel = take_channel().map_err(StageError::new("take over its channel"))?;
    root::build(plan)?;
    rustix::system::sethostname(b"sandbox").map_err(StageError::new("set its host name"))?;
    Ok(channel)
}

/// Restricts this process, whose root directory is already built, and serves requests on the channel until the host
/// ends the session. `locks` is the kernel's list of the guest's file locks, if the kernel does not count them
/// elsewhere.
pub(in crate::backend) fn serve(
    bounds: &GuestLimits,
    channel: StdStream,
    agent: Agent,
    locks: Option<File>,
) -> Result<(), StageError> {
    let agent = agent.count_kernel_memory(match bounds.memory_enforcement() {
        MemoryEnforcement::Kernel => KernelMeter::with_cgroup(locks),
        MemoryEnforcement::Agent => KernelMeter::without_cgroup(locks),
    });
    let runtime = agent_runtime().map_err(StageError::new("start its runtime"))?;
    // Apply the filter only after the runtime is created, because the filter may refuse the creation of the runtime's
    // epoll instance.
    confine::confine(bounds, CapabilitySet::empty())?;
    let stream = || {
        channel.set_nonblocking(true)?;
        Ok(UnixStream::from_std(channel)?.into_split())
    };
    serve_on(runtime, agent, stream).map_err(StageError::new("serve"))
}

/// Moves the channel away from standard input, so that programs started later do not inherit it there.
pub(in crate::backend) fn take_channel() -> io::Result<StdStream> {
    let channel = io::stdin().as_fd().try_clone_to_owned()?;
    let null = File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    Ok(channel.into())
}
