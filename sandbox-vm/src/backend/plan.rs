//! Roles of processes that are started as guests, and the settings of each role.
//!
//! The program of a guest is started with two arguments: a flag, and its role as JSON. See
//! [`guest::enter`](crate::guest::enter).

use std::{collections::BTreeMap, env, io, path::PathBuf};

use rustix::process::Gid;
use serde::{Deserialize, Serialize};

#[cfg(target_arch = "x86_64")]
use super::host::KVM_DEVICE;
use super::microvm::{
    qemu::{Accelerator, Machine, kvm_group},
    qemu_files::QemuFiles,
};
use crate::{limits::Limits, spec::Image};

/// First argument of every process that is started as a guest.
const GUEST_FLAG: &str = "--sandbox-vm-guest";

/// Role of a process that is started as a guest. It is passed as JSON in the second argument.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum GuestArgs {
    /// Creates the namespaces and starts the next stage in them. Standard input is the channel.
    JailOuter(OuterPlan),
    /// Builds the jail around itself and serves the host's requests in it. Standard input is the channel.
    JailInit(JailPlan),
    /// Builds a root file system and executes gVisor on it. Standard input is the channel.
    GvisorOuter(GvisorPlan),
    /// Runs as the first process in a gVisor sandbox, restricts itself, and serves the host's requests. Standard input
    /// is the channel.
    GvisorInit(AgentPlan),
    /// Runs as the first program in a container, restricts itself, and serves the host's requests on standard input and
    /// output.
    Contained(AgentPlan),
    /// Builds a root file system that contains only QEMU, switches to it, and executes QEMU. Standard input is the
    /// channel.
    Qemu(QemuPlan),
    /// Runs as the first program in a VM, sets up the system, and serves the host's requests on the VM's channel.
    MicroVm(AgentPlan),
    /// Builds the jail around itself and runs a VM in it. Standard input is the channel; standard output is `/dev/kvm`.
    #[cfg(target_arch = "x86_64")]
    KvmMonitor(MonitorPlan),
    /// Runs as the only program in a VM that has no guest kernel, and serves the host's requests. Standard input is the
    /// channel.
    #[cfg(target_arch = "x86_64")]
    KvmGuest,
}

impl GuestArgs {
    /// Returns the arguments that start a program as a guest with this role.
    pub(crate) fn to_args(&self) -> io::Result<[String; 2]> {
        Ok([GUEST_FLAG.to_owned(), serde_json::to_string(self)?])
    }

    /// Returns the arguments for the kernel command line. The JSON is hex-encoded, because the kernel command line has
    /// its own rules for quotes and spaces.
    pub(crate) fn to_kernel_args(&self) -> String {
        let json = serde_json::to_vec(self).unwrap_or_default();
        format!("{GUEST_FLAG} {}", hex::encode(json))
    }

    /// Returns the device that the previous stage must open as this stage's standard output, because this stage has no
    /// permission to open it.
    pub(crate) fn device(&self) -> Option<&'static str> {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::KvmMonitor(_) => Some(KVM_DEVICE),
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

    /// Parses the second argument, which is JSON or hex-encoded JSON.
    pub(crate) fn parse(argument: &str) -> Result<Self, serde_json::Error> {
        let decoded = hex::decode(argument);
        serde_json::from_slice(decoded.as_deref().unwrap_or(argument.as_bytes()))
    }
}

/// Returns whether this process was started as a guest.
pub(crate) fn was_started_as_guest() -> bool {
    env::args_os().nth(1).is_some_and(|it| it == GUEST_FLAG)
}

/// Settings for the stage that creates the namespaces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct OuterPlan {
    /// Files that the outer stage writes to in order to join the guest's control groups.
    pub(super) cgroup_files: Vec<PathBuf>,
    /// Arguments of the stage that the outer stage starts in the namespaces.
    pub(super) next: Box<GuestArgs>,
}

/// Settings for a stage that builds a jail around itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct JailPlan {
    pub(super) image: Image,
    pub(super) shared_dirs: BTreeMap<String, PathBuf>,
    pub(super) bounds: GuestLimits,
}

/// Settings for the stage that becomes `runsc`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct GvisorPlan {
    pub(super) runsc: PathBuf,
    /// The guest that `runsc` starts.
    pub(super) guest: JailPlan,
}

/// Settings for an agent whose root directory is already built.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct AgentPlan {
    pub(super) bounds: GuestLimits,
}

/// Settings for the stage that becomes QEMU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct QemuPlan {
    pub(super) qemu: QemuFiles,
    pub(super) machine: Machine,
}

impl QemuPlan {
    /// Returns the group that QEMU needs in order to open the KVM device, or `None` if it does not use KVM.
    fn group(&self) -> Option<Gid> {
        if self.has_kvm() { kvm_group() } else { None }
    }

    pub(super) fn has_kvm(&self) -> bool {
        self.machine.accelerator == Accelerator::Kvm
    }
}

/// Settings for the monitor of a VM without a guest kernel.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct MonitorPlan {
    pub(super) jail: JailPlan,
    pub(super) memory: u64,
    pub(super) disk: u64,
    pub(super) files: u32,
}

/// Limits on the guest's programs, enforced by the kernel that the guest runs on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GuestLimits {
    pub(super) processes: u32,
    pub(super) files: u32,
    pub(super) disk: u64,
    /// Maximum size in bytes of the data segment of one process (`RLIMIT_DATA`). Set only if nothing else limits the
    /// total memory of all processes.
    pub(super) data: Option<u64>,
}

impl GuestLimits {
    pub(super) fn new(limits: &Limits, data: Option<u64>) -> Self {
        Self { processes: limits.processes, files: limits.files, disk: limits.disk, data }
    }

    /// Returns what enforces the limit on the total memory of the guest's processes.
    pub(super) fn memory_enforcement(&self) -> MemoryEnforcement {
        if self.data.is_some() { MemoryEnforcement::Agent } else { MemoryEnforcement::Kernel }
    }
}

/// The component that enforces the limit on the total memory of a guest's processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemoryEnforcement {
    /// A kernel enforces it, because a control group limits the memory or because the VM has no more memory.
    Kernel,
    /// Only the agent enforces it, by measuring each process, the kernel memory that the processes hold, and the files
    /// in the workspace. Memory that it cannot measure must be small, so the seccomp filter forbids shared memory,
    /// memory files, sockets other than connected pairs, larger pipes, passing file descriptors, watching files, and
    /// epoll. Resource limits bound the rest: open files, pending signals and message queues.
    Agent,
}
