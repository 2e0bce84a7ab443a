//! KVM without a guest kernel: a VM that contains one program, whose system calls the monitor answers.
//!
//! The machine has memory and a processor and nothing else: no kernel, no devices, no clock, no disk. The processor
//! runs the guest's program in user mode, and anything that the program wants beyond its own memory leaves the VM. The
//! monitor answers a short list of system calls from its own memory, which also contains the guest's files. The monitor
//! itself runs in a [jail](super::Jail): no files of the host, no network, and an even shorter list of system calls.
//!
//! A guest therefore has to break out of a VM first and then out of a jail. It starts as fast as a process and runs at
//! the speed of the processor. It cannot run programs: there is one process, one thread, and no way to start another.
//! The back end is for graphs and is used only where it is named explicitly; applications that run programs add another
//! back end instead.

mod boot;
mod disk;
mod elf;
mod handle;
mod host_io;
mod kernel;
mod machine;
mod monitor;
mod ram;
mod space;

use std::{fs::File, path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;

#[cfg(any(test, feature = "testkit"))]
pub use kernel::fuzz_kernel;
pub use monitor::{guest, monitor};

use self::handle::MonitorHandle;
use super::{
    Backend, Guest,
    confine::GuestLimits,
    jail::{self, launch},
};
use crate::{
    Error,
    cgroup::{Cgroup, Controller},
    guest::GuestArgs,
    limits::Limits,
    report::{Guarantee, Report},
    sandbox_dir::SandboxDir,
    spec::{Image, Spec},
};

const NAME: &str = "kvm-process";

/// The KVM device.
pub(crate) const KVM_DEVICE: &str = "/dev/kvm";

/// How long a guest may take for the handshake when the back end is probed.
const PROBE_TIMEOUT: Duration = Duration::from_secs(20);

/// Memory that the monitor needs besides the guest's memory and files: its program, and its bookkeeping for both.
const MONITOR_MEMORY: u64 = 48 << 20;

/// Marks the line in which the monitor reports the end of its guest. It is the last such line.
const GUEST_ENDED: &str = "continue running its guest";

/// Says in that line that memory ran out.
const OUT_OF_MEMORY: &str = "the guest ran out of memory";

/// The back end for KVM without a guest kernel. It runs only graphs, as its report says.
#[derive(Clone, Debug)]
pub struct KvmProcess {
    program: PathBuf,
    /// The report, kept because probing starts a guest.
    probed: Arc<OnceCell<Report>>,
}

/// What the monitor needs to know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MonitorPlan {
    jail: jail::InitPlan,
    memory: u64,
    disk: u64,
    files: u32,
}

impl KvmProcess {
    /// Creates a back end whose guests run this program, which is also the monitor. It has to be statically linked and
    /// call [`guest::enter`](crate::guest::enter) first.
    pub fn agent(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), probed: Arc::default() }
    }

    /// Creates a back end whose guests run the current program. It has to be statically linked and call
    /// [`guest::enter`](crate::guest::enter) first.
    pub fn this_program() -> Self {
        Self::agent("/proc/self/exe")
    }

    fn guarantees(cgroup: Option<&Cgroup>) -> Vec<Guarantee> {
        let mut guarantees = Vec::from(super::VM_GUARANTEES);
        let has = |of| cgroup.is_some_and(|it| it.has(of));
        guarantees.extend(has(Controller::Cpu).then_some(Guarantee::CpuShare));
        guarantees.extend(has(Controller::Freezer).then_some(Guarantee::Pause));
        guarantees
    }

    async fn probe_once(&self) -> Report {
        if let Err(error) = File::options().read(true).write(true).open(KVM_DEVICE) {
            return Report::unavailable(NAME, format!("cannot open {KVM_DEVICE}: {error}")).with_advice(
                "use a machine with KVM and let this user open the device: `usermod -aG kvm USER` on most systems",
            );
        }
        match super::probe_by_starting(self, "probe-kvm", PROBE_TIMEOUT, Self::guarantees).await {
            Err(error) => Report::unavailable(NAME, error.to_string()).with_advice(
                "the guest's program has to be statically linked: build it with `-C target-feature=+crt-static`; the \
                 monitor runs in the jail's namespaces: if the jail is not available either, follow the advice in its \
                 report first",
            ),
            Ok(report) => report,
        }
    }
}

#[async_trait]
impl Backend for KvmProcess {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn probe(&self) -> Report {
        self.probed.get_or_init(|| self.probe_once()).await.clone()
    }

    async fn start(&self, spec: &Spec, sandbox_dir: &SandboxDir) -> Result<Guest, Error> {
        if spec.image != Image::Base {
            return Err(Error::Unsupported {
                backend: NAME,
                operation: "run programs, so it has no images",
            });
        }
        let limits = group_limits(&spec.limits);
        let cgroup = launch::create_cgroup(sandbox_dir, &limits)?;
        let launcher = launch::Launcher { backend: NAME, program: &self.program };
        let plan = monitor_plan(&spec.limits);
        let guest =
            launch::launch(launcher, cgroup, GuestArgs::KvmMonitor(plan), sandbox_dir).await?;
        Ok(Guest { handle: Arc::new(MonitorHandle::new(guest.handle)), ..guest })
    }
}

/// Splits the memory limit: the guest's files are in the monitor's memory, so the disk limit is taken from the guest's
/// memory.
fn monitor_plan(limits: &Limits) -> MonitorPlan {
    let disk = limits.disk.min(limits.memory / 2);
    let bounds = GuestLimits::new(limits, Some(group_limits(limits).memory));
    let jail = jail::InitPlan::new(Image::Base, bounds);
    MonitorPlan { jail, memory: limits.memory - disk, disk, files: limits.files }
}

/// Returns the limits of the control group, which contains the monitor as well as the guest.
fn group_limits(limits: &Limits) -> Limits {
    Limits { memory: limits.memory.saturating_add(MONITOR_MEMORY), ..limits.clone() }
}
