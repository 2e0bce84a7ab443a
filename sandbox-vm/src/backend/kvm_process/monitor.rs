//! The monitor: a jailed process that holds one machine and answers for it.

use std::{
    fs::File,
    io,
    os::{fd::AsFd, unix::net::UnixStream},
};

use rustix::thread::CapabilitySet;
use tokio::net::UnixStream as TokioStream;

use super::{
    MARK, OUT_OF_MEMORY, Plan, boot,
    disk::Size,
    elf::{self, Start},
    kernel::{End, Kernel, Outside},
    machine::Machine,
    outside::Host,
    ram::Ram,
    space::Space,
};
use crate::{
    backend::{
        calls, confine,
        jail::{self, JailError},
    },
    guest::{Agent, GuestArgs, ServeError, serve_here},
};

/// Builds the jail around this process, makes a machine in it whose program is this one, and runs it to its end.
///
/// Standard output is `/dev/kvm`, which the stage before has opened: this one has no right to.
pub fn monitor(plan: &Plan) -> Result<(), JailError> {
    let program = File::open("/proc/self/exe");
    let program = program.map_err(JailError::new("read the guest's program"))?;
    let kvm = take_kvm().map_err(JailError::new("take over KVM"))?;
    let channel = jail::init::enter(&plan.jail)?;
    let mut host = Host::new(channel).map_err(JailError::new("use its channel"))?;

    let ram = Ram::new(plan.memory).map_err(JailError::new("have so much memory"))?;
    let mut space = Space::new(ram, boot::RESERVED).map_err(JailError::new("have memory"))?;
    let machine = Machine::new(kvm, &mut space);
    let mut machine = machine.map_err(JailError::new("use KVM"))?;
    let args = GuestArgs::KvmGuest.to_args().map_err(JailError::new("name the guest"))?;
    let args: Vec<String> = ["/agent".to_owned()].into_iter().chain(args).collect();
    let mut start = Start { args: &args, random: [0; 16] };
    host.random(&mut start.random).map_err(JailError::new("be unpredictable"))?;
    let loaded = elf::load(&program, &start, &mut space);
    let loaded = loaded.map_err(JailError::new("start the guest's program"))?;
    drop(program);

    let filter = calls::monitor().map_err(JailError::new("read the list of system calls"))?;
    confine::close_to(plan.jail.bounds(), CapabilitySet::empty(), &filter)
        .map_err(JailError::new("close its doors"))?;
    let size = Size { bytes: plan.disk, files: plan.files.into() };
    let mut kernel = Kernel::new(space, loaded.heap, size, host);
    let end = machine.run(loaded.entry, &mut kernel).map_err(JailError::new("go on"))?;
    match end {
        End::Exit(0) => Ok(()),
        // Whatever else a guest without memory does, this is why.
        end if kernel.space().is_starved() => {
            Err(JailError::new(MARK)(format!("{OUT_OF_MEMORY}; {end}")))
        }
        end => Err(JailError::new(MARK)(end.to_string())),
    }
}

/// Serves as the guest's program: on standard input, which is the channel.
pub fn guest(agent: Agent) -> Result<(), ServeError> {
    let connect = || {
        let channel = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        channel.set_nonblocking(true)?;
        Ok(TokioStream::from_std(channel)?.into_split())
    };
    serve_here(agent, connect)
}

/// Takes what was opened for this process, and leaves nothing in its place.
fn take_kvm() -> io::Result<std::os::fd::OwnedFd> {
    let kvm = io::stdout().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdout(File::options().write(true).open("/dev/null")?)?;
    Ok(kvm)
}
