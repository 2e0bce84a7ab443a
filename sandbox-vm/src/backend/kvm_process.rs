//! KVM without a guest kernel: a VM that holds one program, whose system calls the monitor answers.
//!
//! The machine has memory and a processor, and nothing else: no kernel, no device, no clock, no disk. The processor
//! enters the guest's program with the rights of a user, and whatever the program wants beyond its own memory leaves
//! the VM. The monitor answers a short list of system calls from its own memory, where the guest's files are too, and
//! runs itself in the walls of the [jail](super::Jail): no file of the host, no network, a list of system calls that is
//! shorter still.
//!
//! So a guest has to get out of a VM first, and then out of a jail. It starts as fast as a process and runs at the
//! speed of the processor. What it lacks is programs: there is one process, one thread, and no way to start another.
//! It is for graphs, and taken by nobody who does not name it: whoever runs programs adds another back end in its place.

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

/// The device that a VM is asked for at.
pub(crate) const KVM_DEVICE: &str = "/dev/kvm";

/// How long a guest has for its first word, when it is tried out whether there can be one.
const PROBE_TIMEOUT: Duration = Duration::from_secs(20);

/// What the monitor needs besides the guest's memory and files: its program, and what it knows of both.
const MONITOR_MEMORY: u64 = 48 << 20;

/// By these words the host knows the monitor's own, which come last of all.
const GUEST_ENDED: &str = "go on with its guest";
const OUT_OF_MEMORY: &str = "it had no memory left";

/// KVM without a guest kernel, as a back end: for graphs alone, as its report says.
#[derive(Clone, Debug)]
pub struct KvmProcess {
    program: PathBuf,
    /// A guest is started to find out whether one can be; once is enough.
    probed: Arc<OnceCell<Report>>,
}

/// What the monitor has to know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MonitorPlan {
    jail: jail::InitPlan,
    memory: u64,
    disk: u64,
    files: u32,
}

impl KvmProcess {
    /// Guests that are this program: static, and calling [`guest::enter`](crate::guest::enter) first. It is the
    /// monitor too.
    pub fn agent(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), probed: Arc::default() }
    }

    /// Guests that are the program that runs now: static, and calling [`guest::enter`](crate::guest::enter) first.
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
            return Report::unavailable(NAME, format!("{KVM_DEVICE} cannot be opened: {error}")).with_advice(
                "use a machine with KVM, and let this user use it: `usermod -aG kvm USER` on most systems",
            );
        }
        match super::probe_by_starting(self, "probe-kvm", PROBE_TIMEOUT, Self::guarantees).await {
            Err(error) => Report::unavailable(NAME, error.to_string()).with_advice(
                "the guest's program has to be static: build it with `-C target-feature=+crt-static`; and the monitor \
                 runs in the jail's namespaces: where the jail is not available either, do first what its report says",
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

/// The guest's files are memory too, of the monitor's: what they may take is set aside from the guest's own.
fn monitor_plan(limits: &Limits) -> MonitorPlan {
    let disk = limits.disk.min(limits.memory / 2);
    let bounds = GuestLimits::new(limits, Some(group_limits(limits).memory));
    let jail = jail::InitPlan::new(Image::Base, bounds);
    MonitorPlan { jail, memory: limits.memory - disk, disk, files: limits.files }
}

/// The limits of the control group, which holds the monitor together with the guest.
fn group_limits(limits: &Limits) -> Limits {
    Limits { memory: limits.memory.saturating_add(MONITOR_MEMORY), ..limits.clone() }
}
