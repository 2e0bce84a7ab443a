//! The back end for KVM without a guest kernel.

mod boot;
mod disk;
mod elf;
mod executable;
mod handle;
mod host_io;
mod kernel;
mod library;
mod machine;
mod monitor;
mod ram;
mod space;

use std::{
    collections::BTreeMap, fs::File, io::ErrorKind, path::PathBuf, sync::Arc, time::Duration,
};

use async_trait::async_trait;
use tokio::sync::OnceCell;

pub(crate) use monitor::{guest, monitor};

use self::handle::MonitorHandle;
use super::{
    host::KVM_DEVICE,
    interface::{Backend, Guest},
    jail::launch,
    names::KVM_PROCESS as NAME,
    plan::{GuestArgs, GuestLimits, JailPlan, MonitorPlan},
    probe::{VM_GUARANTEES, probe_by_starting},
};
use crate::{
    Error,
    cgroup::{Cgroup, Controller},
    limits::Limits,
    report::{Guarantee, Report},
    sandbox_dir::SandboxDir,
    spec::{Image, Spec},
};

/// How long a guest may take for the handshake when the back end is probed.
const PROBE_TIMEOUT: Duration = Duration::from_secs(120);

/// Memory in bytes that the monitor needs in addition to the guest's memory and files, for its program and its
/// bookkeeping.
const MONITOR_MEMORY: u64 = 48 << 20;

/// The back end for KVM without a guest kernel. A guest is a VM that contains a single program. A process on the host,
/// the *monitor*, handles the system calls of that program.
///
/// The machine has only memory and a processor. It has no kernel, no devices, no clock and no disk. The processor runs
/// the guest's program in user mode, and every access beyond the program's own memory exits from the VM to the monitor.
/// The monitor supports a short list of system calls, which it handles in its own memory. That memory also contains the
/// guest's files. The monitor itself runs in a [jail](super::Jail), without host files, without a network, and with an
/// even shorter list of allowed system calls.
///
/// The program can be the output of a plain `cargo build`. If it is dynamically linked, the guest's dynamic loader can
/// open the libraries that the host's dynamic loader has loaded for the same program, and no other host file. They are
/// mapped privately and are never writable and executable at the same time.
///
/// To reach the host, a guest therefore has to break out of a VM first and then out of a jail. A guest starts as fast
/// as a process and runs at the speed of the processor. It cannot run programs, because it has one process with one
/// thread and no way to start another. The back end runs only graphs, so
/// [`isolating_backends`](super::isolating_backends) includes it only for
/// [`Workload::Graphs`](super::Workload::Graphs).
///
/// ```no_run
/// use sandbox_vm::{Isolation, Sandboxes, backend::KvmProcess};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // The guests run graphs only. Their program calls `guest::enter`.
/// let builder = Sandboxes::builder().backend(KvmProcess::agent("/usr/local/bin/guest"));
/// let sandboxes = builder.isolation(Isolation::Vm).open().await?;
/// assert!(sandboxes.isolated());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct KvmProcess {
    program: PathBuf,
    /// Cached probe report. Probing again would start another guest.
    probed: Arc<OnceCell<Report>>,
}

/// Advice for a machine on which this user may not open the KVM device.
const ALLOW_KVM: &str = "run `sudo usermod -aG kvm $USER` and log in again";

/// Advice for a machine without the KVM device.
const LOAD_KVM: &str = "run `sudo modprobe -a kvm_intel kvm_amd`; if this machine is itself a virtual machine, enable \
                        nested virtualisation for it first";

impl KvmProcess {
    /// Creates a back end whose guests run `program`, which is also the monitor. The program has to call
    /// [`guest::enter`](crate::guest::enter) before anything else. It can be linked statically or dynamically.
    pub fn agent(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), probed: Arc::default() }
    }

    /// Creates a back end whose guests run the current program. The program has to call
    /// [`guest::enter`](crate::guest::enter) before anything else. It can be linked statically or dynamically.
    pub fn this_program() -> Self {
        Self::agent("/proc/self/exe")
    }

    fn guarantees(cgroup: Option<&Cgroup>) -> Vec<Guarantee> {
        let mut guarantees = Vec::from(VM_GUARANTEES);
        let has = |of| cgroup.is_some_and(|it| it.has(of));
        guarantees.extend(has(Controller::Cpu).then_some(Guarantee::CpuShare));
        guarantees.extend(has(Controller::Freezer).then_some(Guarantee::Pause));
        guarantees
    }

    async fn probe_once(&self) -> Report {
        if let Err(error) = File::options().read(true).write(true).open(KVM_DEVICE) {
            let advice = match error.kind() {
                ErrorKind::PermissionDenied => ALLOW_KVM,
                _ => LOAD_KVM,
            };
            return Report::unavailable(NAME, format!("cannot open {KVM_DEVICE}: {error}"))
                .with_advice(advice);
        }
        match probe_by_starting(self, "probe-kvm", PROBE_TIMEOUT, Self::guarantees).await {
            Err(error) => Report::unavailable(NAME, error.to_string()).with_advice(
                "the VM's monitor runs in the jail's namespaces: if the jail is not available either, follow the advice \
                 in its report first",
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
        let cgroup = sandbox_dir.create_cgroup(&group_limits(&spec.limits))?;
        let launcher = launch::Launcher { backend: NAME, program: &self.program };
        let plan = monitor_plan(&spec.limits);
        let guest =
            launch::launch(launcher, cgroup, GuestArgs::KvmMonitor(plan), sandbox_dir).await?;
        Ok(Guest { handle: Arc::new(MonitorHandle::new(guest.handle)), ..guest })
    }
}

/// Splits the sandbox's memory limit between the guest's memory and its files, because the files are in the monitor's
/// memory.
fn monitor_plan(limits: &Limits) -> MonitorPlan {
    let disk = limits.disk.min(limits.memory / 2);
    let bounds = GuestLimits::new(limits, Some(group_limits(limits).memory));
    let jail = JailPlan { image: Image::Base, shared_dirs: BTreeMap::new(), bounds };
    MonitorPlan { jail, memory: limits.memory - disk, disk, files: limits.files }
}

/// Returns the limits of the control group, which contains the monitor as well as the guest.
fn group_limits(limits: &Limits) -> Limits {
    Limits { memory: limits.memory.saturating_add(MONITOR_MEMORY), ..limits.clone() }
}
