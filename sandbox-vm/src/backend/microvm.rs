//! The micro VM back end.

mod handle;
mod init;
mod initrd;
pub(super) mod qemu;
pub(super) mod qemu_files;
mod qmp;
mod snapshot;
mod stage;

use std::{
    collections::BTreeMap,
    fs::File,
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream as StdStream,
    },
    path::{Path, PathBuf},
    sync::{Arc, Mutex as StdMutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use tokio::{
    net::UnixStream,
    sync::{Mutex, OnceCell},
};

pub(crate) use init::init;
pub(crate) use stage::become_qemu;

use self::{
    handle::VmHandle,
    initrd::Linking,
    qemu::{Accelerator, Machine, StartMode},
    qemu_files::QemuFiles,
    qmp::QmpClient,
    snapshot::MachineIdentity,
};
use super::{
    host::find_in_path,
    interface::{Backend, Guest, Snapshot},
    jail::{handle::JailHandle, launch},
    names::MICRO_VM as NAME,
    plan::{AgentPlan, GuestArgs, GuestLimits, QemuPlan},
    probe::{VM_GUARANTEES, probe_by_starting},
};
use crate::{
    Error,
    cgroup::{Cgroup, Controller},
    image::{ImageError, Images},
    limits::Limits,
    report::{Guarantee, Report},
    sandbox_dir::SandboxDir,
    spec::{Image, Spec},
    sync::lock,
};

/// How long a guest may take for the handshake when the back end is probed.
const PROBE_TIMEOUT: Duration = Duration::from_secs(180);

/// Maximum number of OS threads of QEMU and of the outer stage that watches it. The guest's own kernel limits the
/// guest's processes.
const QEMU_THREADS: u32 = 64;

/// All parts of QEMU must come from one Debian suite. If some are already installed from backports, the ordinary
/// command fails.
const QEMU_ADVICE: &str = "install QEMU: `apt-get install qemu-system-x86`, or, if apt reports unmet dependencies because parts of QEMU \
                           come from backports, `apt-get install -t bookworm-backports qemu-system-x86`";

/// The micro VM back end. Each guest has its own kernel and runs in QEMU.
///
/// The machine has a processor, memory, an output-only console, a source of randomness and one channel. It has no
/// network, no disk and no access to host files. KVM runs the machine if it can run ordinary kernels on this host.
/// Otherwise QEMU emulates the machine, which is slow for programs but fast enough for graphs that wait for models.
/// QEMU itself runs in its own namespaces, as an unprivileged user, in a root directory that contains only its own
/// files, and in a control group if one can be created.
///
/// The guest's first program is the agent. It loads the drivers that its channel needs, applies the same restrictions
/// to itself as in the [jail](super::Jail), and serves requests from the host.
///
/// ```no_run
/// use sandbox_vm::{Isolation, Sandboxes, backend::MicroVm};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // The guests run a program that calls `guest::enter`.
/// let builder = Sandboxes::builder().backend(MicroVm::agent("/usr/local/bin/guest"));
/// let sandboxes = builder.isolation(Isolation::Vm).open().await?;
/// assert!(sandboxes.isolated());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct MicroVm {
    agent: PathBuf,
    linking: Linking,
    images: Option<PathBuf>,
    /// Cached probe report. Probing again would take seconds if the machine is emulated.
    probed: Arc<OnceCell<Report>>,
    /// Accelerator that the last probe used, or `None` before the first probe. A std mutex suffices, because it is held
    /// only briefly.
    accelerator: Arc<StdMutex<Option<Accelerator>>>,
    /// Cache of verified and assembled images. Preparing an image again would be slow, because its files are large.
    prepared: Arc<Mutex<BTreeMap<Image, PreparedImage>>>,
}

/// Files that a machine is started from.
#[derive(Clone, Debug)]
struct PreparedImage {
    qemu: QemuFiles,
    kernel: Arc<OwnedFd>,
    initrd: Arc<OwnedFd>,
    /// Size of the initrd in bytes.
    initrd_size: u64,
    /// Name of the dynamic loader that starts the agent, if it is dynamically linked.
    loader: Option<String>,
    /// Hash of the kernel, followed by the hash of the initrd's content.
    content_hash: String,
}

impl MicroVm {
    /// Creates a back end whose VMs run `program` as their first program. The program has to call
    /// [`guest::enter`](crate::guest::enter) before anything else. It has to be statically linked, unless
    /// [`with_libraries`](Self::with_libraries) is called.
    pub fn agent(program: impl Into<PathBuf>) -> Self {
        Self {
            agent: program.into(),
            linking: Linking::Static,
            images: None,
            probed: Arc::default(),
            accelerator: Arc::default(),
            prepared: Arc::default(),
        }
    }

    /// Creates a back end whose VMs run the current program as their first program. The program has to call
    /// [`guest::enter`](crate::guest::enter) before anything else.
    pub fn this_program() -> Self {
        Self::agent("/proc/self/exe")
    }

    /// Accepts a dynamically linked program, such as the output of a plain `cargo build`, and adds its dynamic loader
    /// and its libraries to the guests. Such guests start more slowly, and their programs can read the libraries.
    pub fn with_libraries(self) -> Self {
        Self { linking: Linking::Any, images: self.images, ..Self::agent(self.agent) }
    }

    /// Uses the images in this directory instead of the [default one](Images::default_dir).
    pub fn images(self, dir: impl Into<PathBuf>) -> Self {
        Self { linking: self.linking, images: Some(dir.into()), ..Self::agent(self.agent) }
    }

    async fn prepare(&self, image: &Image) -> Result<PreparedImage, Error> {
        let mut prepared = self.prepared.lock().await;
        if let Some(known) = prepared.get(image) {
            return Ok(known.clone());
        }
        let (agent, dir, wanted) = (self.agent.clone(), self.images.clone(), image.clone());
        let linking = self.linking;
        let work = tokio::task::spawn_blocking(move || prepare(&agent, linking, dir, &wanted));
        let new = work.await.map_err(|error| start_error(error.to_string()))??;
        prepared.insert(image.clone(), new.clone());
        Ok(new)
    }

    fn guarantees(cgroup: Option<&Cgroup>) -> Vec<Guarantee> {
        let mut guarantees = Vec::from(VM_GUARANTEES);
        guarantees.extend([Guarantee::Programs, Guarantee::Pause, Guarantee::Snapshot]);
        let share = cgroup.is_some_and(|it| it.has(Controller::Cpu));
        guarantees.extend(share.then_some(Guarantee::CpuShare));
        guarantees
    }

    async fn probe_once(&self) -> Report {
        if find_in_path(qemu::PROGRAM).is_none() {
            return Report::unavailable(NAME, format!("{} is not installed", qemu::PROGRAM))
                .with_advice(QEMU_ADVICE);
        }
        report(probe_with_fallback(Accelerator::choose(), |it| self.probe_with(it)).await)
    }

    async fn probe_with(&self, accelerator: Accelerator) -> Result<Report, Error> {
        *self.accelerator() = Some(accelerator);
        probe_by_starting(self, "probe-vm", PROBE_TIMEOUT, Self::guarantees).await
    }

    fn accelerator(&self) -> MutexGuard<'_, Option<Accelerator>> {
        lock(&self.accelerator)
    }
}

/// Result of probing with an accelerator.
struct ProbeAttempt {
    accelerator: Accelerator,
    outcome: Result<Report, Error>,
    /// Error of the attempt with KVM, if KVM was tried first and could not start a guest.
    kvm_error: Option<Error>,
}

/// Probes with an accelerator and, if KVM cannot start a guest, with emulation.
async fn probe_with_fallback<F: Future<Output = Result<Report, Error>>>(
    first: Accelerator,
    probe_with: impl Fn(Accelerator) -> F,
) -> ProbeAttempt {
    match probe_with(first).await {
        Err(error) if first == Accelerator::Kvm => {
            let accelerator = Accelerator::Emulation;
            ProbeAttempt {
                accelerator,
                outcome: probe_with(accelerator).await,
                kvm_error: Some(error),
            }
        }
        outcome => ProbeAttempt { accelerator: first, outcome, kvm_error: None },
    }
}

fn report(attempt: ProbeAttempt) -> Report {
    let report = match (attempt.outcome, attempt.accelerator) {
        (Ok(report), Accelerator::Kvm) => report.with_advice("KVM runs the guest's instructions"),
        (Ok(report), Accelerator::Emulation) => report.with_advice(
            "the processor is emulated, so programs run about ten times slower; for full speed, use a host with kvm_intel or \
             kvm_amd whose /dev/kvm this user (for root: the device's group) may open",
        ),
        (Err(error), _) => Report::unavailable(NAME, error.to_string()).with_advice(
            "QEMU runs in the jail's namespaces: if the jail is not available either, follow the advice in its report first",
        ),
    };
    match attempt.kvm_error {
        Some(error) => {
            report.with_advice(format!("KVM was tried first, but no guest started: {error}"))
        }
        None => report,
    }
}

#[async_trait]
impl Backend for MicroVm {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn probe(&self) -> Report {
        self.probed.get_or_init(|| self.probe_once()).await.clone()
    }

    fn footprint(&self, spec: &Spec) -> u64 {
        let images = self.images.clone().map_or_else(Images::open_default, Images::open).ok();
        let initramfs = images.and_then(|it| it.initramfs_size(&spec.image)).unwrap_or_default();
        let agent = self.agent.metadata().map_or(0, |it| it.len());
        let libraries = match self.linking {
            Linking::Static => 0,
            Linking::Any => initrd::library_size(&self.agent),
        };
        qemu::footprint(&spec.limits, initramfs + agent + libraries)
    }

    async fn start(&self, spec: &Spec, sandbox_dir: &SandboxDir) -> Result<Guest, Error> {
        self.launch(spec, sandbox_dir, None).await
    }

    async fn restore(
        &self,
        spec: &Spec,
        sandbox_dir: &SandboxDir,
        from: &Snapshot,
    ) -> Result<Guest, Error> {
        self.launch(spec, sandbox_dir, Some(from)).await
    }
}

impl MicroVm {
    /// Starts a machine, either by booting its kernel or from a snapshot.
    async fn launch(
        &self,
        spec: &Spec,
        sandbox_dir: &SandboxDir,
        from: Option<&Snapshot>,
    ) -> Result<Guest, Error> {
        let prepared = self.prepare(&spec.image).await?;
        let limits = &spec.limits;
        let plan = AgentPlan { bounds: GuestLimits::new(limits, None) };
        let start = if from.is_some() { StartMode::AwaitState } else { StartMode::Boot };
        let agent_args = GuestArgs::MicroVm(plan).to_kernel_args();
        let accelerator = *self.accelerator();
        let accelerator = accelerator.unwrap_or_else(Accelerator::choose);
        let (size, loader) = (prepared.initrd_size, prepared.loader.clone());
        let machine = Machine::new(accelerator, limits, size, start, loader, agent_args);
        let identity = MachineIdentity {
            qemu: String::new(),
            content: prepared.content_hash.clone(),
            limits: machine.describe_size(limits),
        };
        let state = match from {
            Some(from) => Some((from, open_state(from, identity.clone()).await?)),
            None => None,
        };

        let group_limits = Limits {
            memory: qemu::footprint(limits, prepared.initrd_size),
            processes: QEMU_THREADS,
            ..limits.clone()
        };
        let cgroup = sandbox_dir.create_cgroup(&group_limits)?;
        let (monitor, qemu_side) =
            StdStream::pair().map_err(Error::io("cannot create a pair of sockets"))?;
        let files = [qemu_side.as_fd(), prepared.kernel.as_fd(), prepared.initrd.as_fd()];
        let next = GuestArgs::Qemu(QemuPlan { qemu: prepared.qemu, machine });
        let launcher = launch::Launcher { backend: NAME, program: &self.agent };
        let (channel, mut jail) =
            launch::launch_with_files(launcher, cgroup, next, &files, sandbox_dir).await?;
        // QEMU has its own copy of this socket now. The copy in this process would keep the connection open after QEMU
        // has ended.
        drop(qemu_side);
        let mut monitor = match open_monitor(monitor).await {
            Ok(monitor) => monitor,
            Err(error) => return Err(start_error(failure_reason(&mut jail, &error).await)),
        };
        let identity =
            MachineIdentity { qemu: format!("{} {accelerator:?}", monitor.version()), ..identity };
        if let Some((from, state)) = state {
            let restored = restore_state(&mut monitor, &mut jail, state, &identity).await;
            restored.map_err(|problem| Error::Snapshot { dir: from.dir.clone(), problem })?;
        }
        let monitor = Arc::new(Mutex::new(monitor));
        let handle = VmHandle { jail, monitor, identity };
        Ok(Guest { channel: Box::new(channel), handle: Arc::new(handle) })
    }
}

/// Opens the state of a snapshot. Uses a blocking task, because checking the state reads all of it.
async fn open_state(
    from: &Snapshot,
    identity: MachineIdentity,
) -> Result<(File, MachineIdentity), Error> {
    let dir = from.dir.clone();
    let work = tokio::task::spawn_blocking(move || snapshot::open(&dir, &identity));
    work.await.map_err(|error| start_error(error.to_string()))?
}

async fn open_monitor(stream: StdStream) -> io::Result<QmpClient> {
    stream.set_nonblocking(true)?;
    QmpClient::open(UnixStream::from_std(stream)?).await
}

/// Restores a state in a machine that is waiting for one. Fails if another version of QEMU or another accelerator
/// created the state.
async fn restore_state(
    monitor: &mut QmpClient,
    jail: &mut JailHandle,
    (state, saved): (File, MachineIdentity),
    identity: &MachineIdentity,
) -> Result<(), String> {
    if saved.qemu != identity.qemu {
        return Err(format!("it was created by {}, but this is {}", saved.qemu, identity.qemu));
    }
    match snapshot::load(monitor, &state).await {
        Ok(()) => Ok(()),
        Err(error) => Err(failure_reason(jail, &error).await),
    }
}

/// Returns the reason why QEMU failed. If QEMU closed the connection, kills QEMU and returns its output, which says
/// more about the cause than `error`.
async fn failure_reason(jail: &mut JailHandle, error: &io::Error) -> String {
    let diagnostics = match error.kind() {
        io::ErrorKind::UnexpectedEof => jail.collect_diagnostics_and_kill().await,
        _ => String::new(),
    };
    if diagnostics.is_empty() { error.to_string() } else { diagnostics }
}

fn prepare(
    agent: &Path,
    linking: Linking,
    dir: Option<PathBuf>,
    image: &Image,
) -> Result<PreparedImage, Error> {
    let refused = |error: ImageError| start_error(error.to_string());
    let images = dir.map_or_else(Images::open_default, Images::open).map_err(refused)?;
    let boot = images.boot_files(image).map_err(refused)?;
    let agent = initrd::agent_archive(&boot.initramfs, agent, linking)?;
    let sealed = |name: &str, pieces: &[&[u8]]| {
        let file = stage::sealed_memfd(name, pieces);
        file.map(Arc::new).map_err(Error::io(format!("cannot store the guest's {name} in memory")))
    };
    Ok(PreparedImage {
        qemu: QemuFiles::find().map_err(Error::io("cannot find the files of QEMU"))?,
        kernel: sealed("kernel", &[&boot.kernel])?,
        initrd: sealed("initrd", &[&boot.initramfs, &agent.archive])?,
        initrd_size: (boot.initramfs.len() + agent.archive.len()) as u64,
        loader: agent.loader,
        content_hash: format!("{} {}", boot.kernel_sha256, agent.hash),
    })
}

fn start_error(problem: String) -> Error {
    Error::Start { backend: NAME, problem }
}

#[cfg(test)]
mod tests {
    use super::{
        Accelerator, NAME, ProbeAttempt, Report, probe_with_fallback, report, start_error,
    };

    async fn tried(works: &[Accelerator]) -> ProbeAttempt {
        let probe_with = async |accelerator: Accelerator| match works.contains(&accelerator) {
            true => Ok(Report::available(NAME, [])),
            false => Err(start_error(format!("no {accelerator:?}"))),
        };
        probe_with_fallback(Accelerator::Kvm, probe_with).await
    }

    #[tokio::test]
    async fn emulation_is_used_and_reported_if_kvm_starts_no_guest() {
        let both = tried(&[Accelerator::Kvm, Accelerator::Emulation]).await;
        assert_eq!(both.accelerator, Accelerator::Kvm);
        assert!(report(both).advice[0].starts_with("KVM runs"));
        let emulated = tried(&[Accelerator::Emulation]).await;
        assert_eq!(emulated.accelerator, Accelerator::Emulation);
        let emulated = report(emulated);
        assert!(emulated.is_available() && emulated.advice[0].contains("is emulated"));
        assert!(emulated.advice[1].contains("no Kvm"), "{emulated}");
        let none = report(tried(&[]).await);
        assert!(none.problem.as_ref().is_some_and(|it| it.contains("no Emulation")), "{none}");
        assert!(none.advice[1].contains("no Kvm"), "{none}");
    }
}
