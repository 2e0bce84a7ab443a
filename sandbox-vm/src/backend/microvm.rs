//! The micro VM: a guest with a kernel of its own, in QEMU.
//!
//! The machine has a processor, memory, a console that is only listened to, a source of randomness and one channel; no
//! network, no disk, no file of the host. KVM runs it where KVM runs ordinary kernels; elsewhere QEMU emulates it, which
//! is slow for programs and fast enough for graphs that wait for models. QEMU itself runs in namespaces of its own, as
//! nobody, in a root that holds nothing but its own files ([`become_qemu`]), and in a control group where one can be made.
//!
//! The guest's first program is the agent. It loads the drivers of its channel, closes the same doors behind itself as
//! in the [jail](super::jail), and serves.

mod handle;
mod init;
mod initrd;
mod monitor;
mod parts;
mod qemu;
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
    sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::{
    net::UnixStream,
    sync::{Mutex, OnceCell},
};

pub use init::{InitError, init};
pub use stage::{Stage, become_qemu};

use self::{
    handle::VmHandle,
    monitor::Monitor,
    parts::Parts,
    qemu::{Accelerator, Begin, Machine},
    snapshot::Made,
};
use super::{
    Backend, Guest, Snapshot,
    confine::Bounds,
    jail::{handle::JailHandle, launch},
};
use crate::{
    Error,
    berth::Berth,
    cgroup::{Cgroup, Controller},
    guest::GuestArgs,
    image::{ImageError, Images},
    limits::Limits,
    report::{Guarantee, Report},
    spec::{Image, Spec},
};

const NAME: &str = "microvm";

/// How long a guest has for its first word, when it is tried out whether there can be one.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many threads QEMU may have, and the stage that stays with it: what the guest may have is its own kernel's affair.
const THREADS: u32 = 64;

/// The micro VM as a back end.
#[derive(Clone, Debug)]
pub struct MicroVm {
    agent: PathBuf,
    images: Option<PathBuf>,
    /// To start a machine takes seconds where it is emulated, so it is tried out once.
    probed: Arc<OnceCell<Report>>,
    /// What runs a guest's instructions, once it was tried out. A std mutex: held for a moment.
    accelerator: Arc<StdMutex<Option<Accelerator>>>,
    /// What was checked and put together for an image; its files are large, so that is done once too.
    prepared: Arc<Mutex<BTreeMap<Image, Prepared>>>,
}

/// What a machine is started from.
#[derive(Clone, Debug)]
struct Prepared {
    qemu: Parts,
    kernel: Arc<OwnedFd>,
    initrd: Arc<OwnedFd>,
    /// How many bytes the first file system has.
    root: u64,
    /// Stands for the content of kernel and first file system.
    sum: String,
}

/// What the agent in the guest has to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    bounds: Bounds,
}

impl MicroVm {
    /// A VM whose first program is this one: static, and calling [`guest::enter`](crate::guest::enter) first.
    pub fn agent(program: impl Into<PathBuf>) -> Self {
        Self {
            agent: program.into(),
            images: None,
            probed: Arc::default(),
            accelerator: Arc::default(),
            prepared: Arc::default(),
        }
    }

    /// A VM whose first program is the one that runs now: static, and calling [`guest::enter`](crate::guest::enter)
    /// first.
    pub fn this_program() -> Self {
        Self::agent("/proc/self/exe")
    }

    /// Takes the images of this folder, in place of the [usual one](Images::usual_folder).
    pub fn images(self, folder: impl Into<PathBuf>) -> Self {
        Self { images: Some(folder.into()), ..Self::agent(self.agent) }
    }

    async fn prepare(&self, image: &Image) -> Result<Prepared, Error> {
        let mut prepared = self.prepared.lock().await;
        if let Some(known) = prepared.get(image) {
            return Ok(known.clone());
        }
        let (agent, folder, wanted) = (self.agent.clone(), self.images.clone(), image.clone());
        let work = tokio::task::spawn_blocking(move || prepare(&agent, folder, &wanted));
        let made = work.await.map_err(|error| start(error.to_string()))??;
        prepared.insert(image.clone(), made.clone());
        Ok(made)
    }

    fn guarantees(cgroup: Option<&Cgroup>) -> Vec<Guarantee> {
        let mut guarantees = Vec::from(super::OF_A_VM);
        guarantees.extend([Guarantee::Programs, Guarantee::Pause, Guarantee::Snapshot]);
        let share = cgroup.is_some_and(|it| it.has(Controller::Cpu));
        guarantees.extend(share.then_some(Guarantee::CpuShare));
        guarantees
    }

    async fn try_out(&self) -> Report {
        if super::in_path(qemu::PROGRAM).is_none() {
            return Report::fails(NAME, format!("{} is not installed", qemu::PROGRAM))
                .advise("install QEMU: apt-get install qemu-system-x86");
        }
        report(try_from(Accelerator::choose(), |it| self.try_with(it)).await)
    }

    async fn try_with(&self, accelerator: Accelerator) -> Result<Report, Error> {
        *self.accelerator() = Some(accelerator);
        super::try_and_report(self, "probe-vm", PATIENCE, Self::guarantees).await
    }

    fn accelerator(&self) -> MutexGuard<'_, Option<Accelerator>> {
        self.accelerator.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What came of trying to start a guest.
struct Tried {
    with: Accelerator,
    outcome: Result<Report, Error>,
    /// Why KVM was not taken, though it seemed to be of the right kind.
    kvm: Option<Error>,
}

/// Tries an accelerator and, where KVM starts no guest, emulation.
async fn try_from<F: Future<Output = Result<Report, Error>>>(
    first: Accelerator,
    try_with: impl Fn(Accelerator) -> F,
) -> Tried {
    match try_with(first).await {
        Err(error) if first == Accelerator::Kvm => {
            let with = Accelerator::Emulation;
            Tried { with, outcome: try_with(with).await, kvm: Some(error) }
        }
        outcome => Tried { with: first, outcome, kvm: None },
    }
}

fn report(tried: Tried) -> Report {
    let report = match (tried.outcome, tried.with) {
        (Ok(report), Accelerator::Kvm) => report.advise("KVM runs the guest's instructions"),
        (Ok(report), Accelerator::Emulation) => report.advise(
            "the processor is emulated, programs run ten times slower: a host whose /dev/kvm belongs to kvm_intel or \
             kvm_amd, and may be used by this user (or, for root, by the device's group), runs them at full speed",
        ),
        (Err(error), _) => Report::fails(NAME, error.to_string()).advise(
            "QEMU runs in the jail's namespaces: where the jail is not available either, do first what its report says",
        ),
    };
    match tried.kvm {
        Some(error) => report.advise(format!("KVM was tried first, and no guest started: {error}")),
        None => report,
    }
}

#[async_trait]
impl Backend for MicroVm {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn probe(&self) -> Report {
        self.probed.get_or_init(|| self.try_out()).await.clone()
    }

    fn footprint(&self, spec: &Spec) -> u64 {
        let images = self.images.clone().map_or_else(Images::find, Images::open).ok();
        let root = images.and_then(|it| it.size_of_root(&spec.image)).unwrap_or_default();
        let agent = self.agent.metadata().map_or(0, |it| it.len());
        qemu::footprint(&spec.limits, root + agent)
    }

    async fn start(&self, spec: &Spec, berth: &Berth) -> Result<Guest, Error> {
        self.launch(spec, berth, None).await
    }

    async fn restore(&self, spec: &Spec, berth: &Berth, from: &Snapshot) -> Result<Guest, Error> {
        self.launch(spec, berth, Some(from)).await
    }
}

impl MicroVm {
    /// Starts a machine, from its kernel or from a snapshot.
    async fn launch(
        &self,
        spec: &Spec,
        berth: &Berth,
        from: Option<&Snapshot>,
    ) -> Result<Guest, Error> {
        let prepared = self.prepare(&spec.image).await?;
        let limits = &spec.limits;
        let plan = Plan { bounds: Bounds::new(limits, None) };
        let begin = if from.is_some() { Begin::AwaitState } else { Begin::Boot };
        let agent_args = GuestArgs::MicroVm(plan).to_words();
        let accelerator = *self.accelerator();
        let accelerator = accelerator.unwrap_or_else(Accelerator::choose);
        let machine = Machine::new(accelerator, limits, prepared.root, begin, agent_args);
        let made =
            Made { by: String::new(), of: prepared.sum.clone(), within: machine.size(limits) };
        let state = match from {
            Some(from) => Some((from, open_state(from, made.clone()).await?)),
            None => None,
        };

        let group = Limits {
            memory: qemu::footprint(limits, prepared.root),
            processes: THREADS,
            ..limits.clone()
        };
        let cgroup = launch::group(berth, &group)?;
        let (monitor, theirs) = StdStream::pair().map_err(Error::io("a pair of sockets"))?;
        let files = [theirs.as_fd(), prepared.kernel.as_fd(), prepared.initrd.as_fd()];
        let next = GuestArgs::Qemu(Stage { qemu: prepared.qemu, machine });
        let by = launch::By { backend: NAME, program: &self.agent };
        let (channel, mut jail) = launch::launch_with(by, cgroup, next, &files, berth).await?;
        // QEMU has it now; ours would keep the connection open when QEMU is gone.
        drop(theirs);
        let mut monitor = match open_monitor(monitor).await {
            Ok(monitor) => monitor,
            Err(error) => return Err(start(complaint(&mut jail, &error).await)),
        };
        let made = Made { by: format!("{} {accelerator:?}", monitor.version()), ..made };
        if let Some((from, state)) = state {
            let resumed = resume(&mut monitor, &mut jail, state, &made).await;
            resumed.map_err(|problem| Error::Snapshot { folder: from.folder.clone(), problem })?;
        }
        let monitor = Arc::new(Mutex::new(monitor));
        let handle = VmHandle { jail, monitor, made };
        Ok(Guest { channel: Box::new(channel), handle: Arc::new(handle) })
    }
}

/// To open a state takes a while: all of it is looked at.
async fn open_state(from: &Snapshot, made: Made) -> Result<(File, Made), Error> {
    let folder = from.folder.clone();
    let work = tokio::task::spawn_blocking(move || snapshot::open(&folder, &made));
    work.await.map_err(|error| start(error.to_string()))?
}

async fn open_monitor(stream: StdStream) -> io::Result<Monitor> {
    stream.set_nonblocking(true)?;
    Monitor::open(UnixStream::from_std(stream)?).await
}

/// Lets a machine that waits for it go on from a state, if it is the machine that the state is of.
async fn resume(
    monitor: &mut Monitor,
    jail: &mut JailHandle,
    (state, kept): (File, Made),
    made: &Made,
) -> Result<(), String> {
    if kept.by != made.by {
        return Err(format!("it was made by {}, and here is {}", kept.by, made.by));
    }
    match snapshot::go_on(monitor, &state).await {
        Ok(()) => Ok(()),
        Err(error) => Err(complaint(jail, &error).await),
    }
}

/// Ends a QEMU that failed. What it says of that is more than that the connection is gone.
async fn complaint(jail: &mut JailHandle, error: &io::Error) -> String {
    let words = match error.kind() {
        io::ErrorKind::UnexpectedEof => jail.gather_words().await,
        _ => String::new(),
    };
    if words.is_empty() { error.to_string() } else { words }
}

fn prepare(agent: &Path, folder: Option<PathBuf>, image: &Image) -> Result<Prepared, Error> {
    let refused = |error: ImageError| start(error.to_string());
    let images = folder.map_or_else(Images::find, Images::open).map_err(refused)?;
    let parts = images.parts(image).map_err(refused)?;
    let agent = initrd::agent(&parts.root, agent)?;
    let sealed = |name: &str, pieces: &[&[u8]]| {
        let file = stage::sealed(name, pieces);
        file.map(Arc::new).map_err(Error::io(format!("the guest's {name}")))
    };
    Ok(Prepared {
        qemu: Parts::find().map_err(Error::io("the files of QEMU"))?,
        kernel: sealed("kernel", &[&parts.kernel])?,
        initrd: sealed("first file system", &[&parts.root, &agent.archive])?,
        root: (parts.root.len() + agent.archive.len()) as u64,
        sum: format!("{} {}", parts.kernel_sum, agent.sum),
    })
}

fn start(problem: String) -> Error {
    Error::Start { backend: NAME, problem }
}

#[cfg(test)]
mod tests {
    use super::{Accelerator, NAME, Report, Tried, report, start, try_from};

    async fn tried(works: &[Accelerator]) -> Tried {
        let try_with = async |with: Accelerator| match works.contains(&with) {
            true => Ok(Report::works(NAME, [])),
            false => Err(start(format!("no {with:?}"))),
        };
        try_from(Accelerator::Kvm, try_with).await
    }

    #[tokio::test]
    async fn where_kvm_starts_no_guest_the_processor_is_emulated_and_the_report_says_so() {
        let both = tried(&[Accelerator::Kvm, Accelerator::Emulation]).await;
        assert_eq!(both.with, Accelerator::Kvm);
        assert!(report(both).advice[0].starts_with("KVM runs"));
        let emulated = tried(&[Accelerator::Emulation]).await;
        assert_eq!(emulated.with, Accelerator::Emulation);
        let emulated = report(emulated);
        assert!(emulated.is_available() && emulated.advice[0].contains("is emulated"));
        assert!(emulated.advice[1].contains("no Kvm"), "{emulated}");
        let none = report(tried(&[]).await);
        assert!(none.problem.as_ref().is_some_and(|it| it.contains("no Emulation")), "{none}");
        assert!(none.advice[1].contains("no Kvm"), "{none}");
    }
}
