//! The monitor, a jailed process that owns one machine and handles its system calls.

use std::{
    fs::File,
    io,
    os::{fd::AsFd, unix::net::UnixStream},
};

use rustix::thread::CapabilitySet;
use tokio::net::UnixStream as TokioStream;

use super::{
    boot,
    disk::Capacity,
    elf::{self, ProgramArgs},
    executable::Executable,
    host_io::SystemHost,
    kernel::{GuestExit, HostIo, Kernel},
    machine::Machine,
    ram::Ram,
    space::AddressSpace,
};
use crate::{
    backend::{
        confine, jail,
        plan::{GuestArgs, MonitorPlan},
        seccomp,
        stage_error::StageError,
    },
    guest::{Agent, serve_blocking},
};

/// Text that marks the line in which the monitor reports the end of its guest. In that line, the text follows the
/// prefix `the sandbox cannot`. If several lines contain the text, the last one counts.
pub(super) const GUEST_ENDED: &str = "continue running its guest";

/// Text that the line marked by `GUEST_ENDED` also contains if the guest ran out of memory.
pub(super) const OUT_OF_MEMORY: &str = "the guest ran out of memory";

/// Builds the jail around this process, creates a machine that runs this same program, and runs the machine until the
/// program ends.
///
/// Standard output is `/dev/kvm`. The previous stage has opened the device, because this stage is not permitted to do
/// so.
pub(crate) fn monitor(plan: &MonitorPlan) -> Result<(), StageError> {
    // Open the files of the program now, because they do not exist in the jail.
    let executable = Executable::of_this_process();
    let executable = executable.map_err(StageError::new("open the guest's program"))?;
    let kvm = take_kvm().map_err(StageError::new("take over the KVM device"))?;
    let channel = jail::init::enter_root(&plan.jail)?;
    let mut host = SystemHost::new(channel).map_err(StageError::new("use its channel"))?;

    let ram = Ram::new(plan.memory).map_err(StageError::new("reserve the guest's memory"))?;
    let mut space = AddressSpace::new(ram, boot::RESERVED)
        .map_err(StageError::new("create the guest's address space"))?;
    let machine = Machine::new(kvm, &mut space);
    let mut machine = machine.map_err(StageError::new("set up the VM"))?;
    let guest_args =
        GuestArgs::KvmGuest.to_args().map_err(StageError::new("encode the guest's arguments"))?;
    let argv: Vec<String> = ["/agent".to_owned()].into_iter().chain(guest_args).collect();
    let environment = executable.environment();
    let mut args = ProgramArgs { args: &argv, environment: &environment, random: [0; 16] };
    host.fill_random(&mut args.random).map_err(StageError::new("read random bytes"))?;
    let Executable { program, interpreter, libraries } = executable;
    let loaded = elf::load(&program, interpreter.as_ref(), &args, &mut space);
    let loaded = loaded.map_err(StageError::new("load the guest's program"))?;
    drop((program, interpreter));

    let filter =
        seccomp::monitor_filter().map_err(StageError::new("compile its seccomp filter"))?;
    confine::confine_with_filter(&plan.jail.bounds, CapabilitySet::empty(), &filter)?;
    let capacity = Capacity { bytes: plan.disk, files: plan.files.into() };
    let mut kernel = Kernel::new(space, loaded.heap, libraries, capacity, host);
    let exit = machine.run(loaded.entry, &mut kernel).map_err(StageError::new("run the guest"))?;
    match exit {
        GuestExit::Code(0) => Ok(()),
        // If the guest has ever run out of memory, report that as the reason, no matter how the guest ended.
        exit if kernel.space().ran_out_of_memory() => {
            Err(StageError::new(GUEST_ENDED)(format!("{OUT_OF_MEMORY}; {exit}")))
        }
        exit => Err(StageError::new(GUEST_ENDED)(exit.to_string())),
    }
}

/// Runs the agent as the guest's program, with standard input as the channel.
pub(crate) fn guest(agent: Agent) -> Result<(), StageError> {
    let connect = || {
        let channel = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        channel.set_nonblocking(true)?;
        Ok(TokioStream::from_std(channel)?.into_split())
    };
    serve_blocking(agent, connect).map_err(StageError::new("serve"))
}

/// Takes the KVM device from standard output, and makes `/dev/null` the standard output.
fn take_kvm() -> io::Result<std::os::fd::OwnedFd> {
    let kvm = io::stdout().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdout(File::options().write(true).open("/dev/null")?)?;
    Ok(kvm)
}
