//! Turns a process into a guest.

use std::{
    env,
    ffi::OsString,
    io,
    process::{Command, ExitCode},
};

use rustix::process::Gid;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};

use super::{Agent, ServeError};
#[cfg(target_arch = "x86_64")]
use crate::backend::kvm_process;
use crate::backend::{container, gvisor, jail, microvm};

/// First argument of every process that is started as a guest.
const GUEST_FLAG: &str = "--sandbox-vm-guest";

/// Role of a process that is started as a guest. It is passed as JSON in the second argument.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum GuestArgs {
    /// Creates the namespaces and starts the next stage in them. Standard input is the channel.
    JailOuter(jail::OuterPlan),
    /// Builds the jail around itself and serves in it. Standard input is the channel.
    JailInit(jail::InitPlan),
    /// Builds a root file system and executes gVisor on it. Standard input is the channel.
    GvisorOuter(gvisor::OuterPlan),
    /// Runs as the first program in gVisor, restricts itself, and serves. Standard input is the channel.
    GvisorInit(gvisor::InitPlan),
    /// Runs as the first program in a container, restricts itself, and serves on standard input and output.
    Contained(container::InitPlan),
    /// Builds a root file system that contains only QEMU, switches to it, and executes QEMU. Standard input is the
    /// channel.
    Qemu(microvm::QemuPlan),
    /// Runs as the first program in a VM, sets up the system, and serves on the VM's channel.
    MicroVm(microvm::InitPlan),
    /// Builds the jail around itself and runs a VM in it. Standard input is the channel; standard output is `/dev/kvm`.
    #[cfg(target_arch = "x86_64")]
    KvmMonitor(kvm_process::MonitorPlan),
    /// Serves as the only program in a VM that has no guest kernel. Standard input is the channel.
    #[cfg(target_arch = "x86_64")]
    KvmGuest,
}

impl GuestArgs {
    /// Adds the arguments that start the program as a guest with this role.
    pub(crate) fn apply(&self, command: &mut Command) -> io::Result<()> {
        command.args(self.to_args()?);
        Ok(())
    }

    /// Returns the arguments that start a program as a guest with this role.
    pub(crate) fn to_args(&self) -> io::Result<[String; 2]> {
        Ok([GUEST_FLAG.to_owned(), serde_json::to_string(self)?])
    }

    /// Returns the arguments for the kernel command line. The JSON is hex-encoded, because the kernel command line has
    /// its own rules for quotes and spaces.
    pub(crate) fn to_kernel_args(&self) -> String {
        let json = serde_json::to_vec(self).unwrap_or_default();
        let hex: String = json.iter().map(|it| format!("{it:02x}")).collect();
        format!("{GUEST_FLAG} {hex}")
    }

    /// Returns the device that the previous stage must open as this stage's standard output, because this stage has no
    /// permission to open it.
    pub(crate) fn device(&self) -> Option<&'static str> {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::KvmMonitor(_) => Some(kvm_process::KVM_DEVICE),
            _ => None,
        }
    }

    /// Returns the group that the previous stage must keep, so that this stage is allowed to open its device.
    pub(crate) fn device_group(&self) -> Option<Gid> {
        match self {
            Self::Qemu(stage) => stage.group(),
            _ => None,
        }
    }

    fn parse(argument: &str) -> Result<Self, serde_json::Error> {
        let byte = |at: usize| u8::from_str_radix(argument.get(at..at + 2)?, 16).ok();
        let hex: Option<Vec<u8>> = (0..argument.len()).step_by(2).map(byte).collect();
        serde_json::from_slice(hex.as_deref().unwrap_or(argument.as_bytes()))
    }
}

/// Returns whether this process was started as a guest. A guest that gets as far as calling this function has not
/// called [`enter`].
pub(crate) fn was_started_as_guest() -> bool {
    env::args_os().nth(1).is_some_and(|it| it == GUEST_FLAG)
}

/// Runs the guest and exits if this process was started as a guest; otherwise returns immediately.
///
/// Call this function at the start of `main`, before any OS thread is started, because only a single-threaded process
/// can create namespaces. See [the module](super) for an example.
pub fn enter(agent: impl FnOnce() -> Agent) {
    if let Some(code) = enter_with(agent, env::args_os()) {
        std::process::exit(i32::from(code != ExitCode::SUCCESS));
    }
}

/// Does the same as [`enter`], but takes the arguments as a parameter and does not exit. Returns `None` if the
/// arguments are not those of a guest.
pub fn enter_with(
    agent: impl FnOnce() -> Agent,
    args: impl IntoIterator<Item = OsString>,
) -> Option<ExitCode> {
    let mut args = args.into_iter().skip(1);
    if args.next()? != GUEST_FLAG {
        return None;
    }
    let args = args.next().and_then(|it| it.into_string().ok()).unwrap_or_default();
    let outcome =
        GuestArgs::parse(&args).map_err(GuestError::Arguments).and_then(|args| match args {
            GuestArgs::JailOuter(plan) => jail::outer(&plan).map_err(GuestError::Jail),
            GuestArgs::JailInit(plan) => jail::init(&plan, agent()).map_err(GuestError::Jail),
            GuestArgs::GvisorOuter(plan) => gvisor::outer(&plan).map_err(GuestError::Jail),
            GuestArgs::GvisorInit(plan) => gvisor::init(&plan, agent()).map_err(GuestError::Jail),
            GuestArgs::Contained(plan) => container::init(&plan, agent()).map_err(GuestError::Jail),
            GuestArgs::Qemu(stage) => microvm::become_qemu(&stage).map_err(GuestError::Jail),
            GuestArgs::MicroVm(plan) => microvm::init(&plan, agent()).map_err(GuestError::Init),
            #[cfg(target_arch = "x86_64")]
            GuestArgs::KvmMonitor(plan) => kvm_process::monitor(&plan).map_err(GuestError::Jail),
            #[cfg(target_arch = "x86_64")]
            GuestArgs::KvmGuest => kvm_process::guest(agent()).map_err(GuestError::Serve),
        });
    Some(match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // The host reads this as the guest's diagnostic output.
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    })
}

/// Serves on a channel until the host closes it. Blocks the calling OS thread and uses a single-threaded runtime.
pub fn serve_blocking<R, W>(
    agent: Agent,
    connect: impl FnOnce() -> io::Result<(R, W)>,
) -> Result<(), ServeError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(async {
        let (reader, writer) = connect()?;
        agent.serve(reader, writer).await
    });
    // Do not wait for the OS thread that may be blocked reading standard input.
    runtime.shutdown_background();
    outcome
}

#[derive(Debug, thiserror::Error)]
enum GuestError {
    #[error("cannot parse the guest's arguments: {0}; use a host of the same version")]
    Arguments(serde_json::Error),
    #[error("{0}")]
    Jail(jail::StageError),
    #[error("{0}")]
    Init(microvm::InitError),
    #[error("{0}")]
    Serve(ServeError),
}
