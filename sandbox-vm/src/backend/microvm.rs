//! The micro VM: a guest with a kernel of its own, in QEMU.
//!
//! The machine has a processor, memory, a console that is only listened to, a source of randomness and one channel; no
//! network, no disk, no file of the host. KVM runs it where KVM runs ordinary kernels; elsewhere QEMU emulates it, which
//! is slow for programs and fast enough for graphs that wait for models. QEMU itself runs with a list of system calls,
//! as `nobody` where root starts it, and in a control group where one can be made.
//!
//! The guest's first program is the agent. It loads the drivers of its channel, closes the same doors behind itself as
//! in the [jail](super::jail), and serves.

mod handle;
mod init;
mod initrd;
mod monitor;
mod qemu;
mod snapshot;

use std::{
    collections::BTreeMap,
    env, io,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::{
    net::UnixListener,
    process::Command,
    sync::{Mutex, OnceCell},
};

pub use init::{InitError, init};

use self::{
    handle::VmHandle,
    monitor::Monitor,
    qemu::{Accelerator, Machine},
    snapshot::Made,
};
use super::{Backend, Guest, Snapshot, confine::Bounds, words::Words};
use crate::{
    Error,
    berth::{Berth, Leftover},
    cgroup::{Cgroup, Controller},
    guest::GuestArgs,
    image::{ImageError, Images},
    limits::Limits,
    report::{Guarantee, Report},
    spec::{Image, Spec},
};

const NAME: &str = "microvm";

/// How long QEMU has to start.
const PATIENCE: Duration = Duration::from_secs(30);

/// The micro VM as a back end.
#[derive(Clone, Debug)]
pub struct MicroVm {
    agent: PathBuf,
    images: Option<PathBuf>,
    /// To start a machine takes seconds where it is emulated, so it is tried out once.
    probed: Arc<OnceCell<Report>>,
    /// What was checked and put together for an image; its files are large, so that is done once too.
    prepared: Arc<Mutex<BTreeMap<Image, Prepared>>>,
}

/// The files that a machine is started from.
#[derive(Clone, Debug)]
struct Prepared {
    kernel: PathBuf,
    initrd: PathBuf,
    /// Stands for the content of both.
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
        let mut guarantees = vec![
            Guarantee::OwnKernel,
            Guarantee::FilteredCalls,
            Guarantee::NoNetwork,
            Guarantee::NoHostFiles,
            Guarantee::OwnProcesses,
            Guarantee::NoPrivileges,
            Guarantee::MemoryLimit,
            Guarantee::ProcessLimit,
            Guarantee::DiskLimit,
            Guarantee::Programs,
            Guarantee::Pause,
            Guarantee::Snapshot,
        ];
        let share = cgroup.is_some_and(|it| it.has(Controller::Cpu));
        guarantees.extend(share.then_some(Guarantee::CpuShare));
        guarantees
    }

    async fn try_out(&self) -> Report {
        if super::in_path(qemu::PROGRAM).is_none() {
            return Report::fails(NAME, format!("{} is not installed", qemu::PROGRAM))
                .advise("install QEMU: apt-get install qemu-system-x86");
        }
        let id = format!("probe-vm-{}", std::process::id());
        match super::try_out(self, &id, PATIENCE * 2).await {
            Err(error) => Report::fails(NAME, error.to_string()),
            Ok(()) => {
                let cgroup = Self::group(&id, &Limits::default());
                let report = Report::works(NAME, Self::guarantees(cgroup.as_ref()));
                if let Some(cgroup) = &cgroup {
                    cgroup.remove();
                }
                match Accelerator::choose() {
                    Accelerator::Kvm => report,
                    Accelerator::Emulation => report.advise(
                        "the processor is emulated, programs run ten times slower: a host whose /dev/kvm belongs to \
                         kvm_intel or kvm_amd, and may be used by this user, runs them at full speed",
                    ),
                }
            }
        }
    }

    /// A group for QEMU. Its memory is bounded by the machine it is given; QEMU's own comes on top of that.
    fn group(id: &str, limits: &Limits) -> Option<Cgroup> {
        let limits = Limits { memory: limits.memory.saturating_add(1 << 30), ..limits.clone() };
        Cgroup::make(id, &limits)
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
        let Prepared { kernel, initrd, sum } = self.prepare(&spec.image).await?;
        let limits = &spec.limits;
        let plan = Plan { bounds: Bounds::new(limits, None) };
        let machine = Machine {
            accelerator: Accelerator::choose(),
            kernel: &kernel,
            initrd: &initrd,
            limits,
            channel: berth.folder().join("channel"),
            monitor: berth.folder().join("monitor"),
            awaits_state: from.is_some(),
            agent_args: GuestArgs::MicroVm(plan).to_words(),
        };
        let mut made = Made { by: String::new(), of: sum, within: machine.size() };
        let state = from.map(|it| snapshot::open(&it.folder, &made)).transpose()?;

        let listen = |path| UnixListener::bind(path).map_err(Error::io("the channel to the guest"));
        let (channel, monitor) = (listen(&machine.channel)?, listen(&machine.monitor)?);
        let mut handle = Self::spawn(&machine, berth, limits)?;
        let connected = async {
            let (channel, monitor) = tokio::try_join!(channel.accept(), monitor.accept())?;
            let monitor = Monitor::open(monitor.0).await?;
            made.by = format!("{} {:?}", monitor.version(), machine.accelerator);
            Ok::<_, io::Error>((channel.0, monitor))
        };
        let (channel, mut monitor) = handle.unless_it_ends(connected).await.map_err(start)?;
        if let (Some((state, kept)), Some(from)) = (state, from) {
            if kept.by != made.by {
                let problem = format!("it was made by {}, and here is {}", kept.by, made.by);
                return Err(Error::Snapshot { folder: from.folder.clone(), problem });
            }
            let resumed = snapshot::go_on(&mut monitor, &state);
            handle
                .unless_it_ends(resumed)
                .await
                .map_err(|problem| Error::Snapshot { folder: from.folder.clone(), problem })?;
        }
        handle.tie(monitor, made);
        Ok(Guest { channel: Box::new(channel), handle: Arc::new(handle) })
    }

    /// Starts QEMU.
    fn spawn(machine: &Machine<'_>, berth: &Berth, limits: &Limits) -> Result<VmHandle, Error> {
        berth.note(Cgroup::folders_for(berth.id()).into_iter().map(Leftover::Cgroup))?;
        let mut child = command(machine).spawn().map_err(|error| start(error.to_string()))?;
        if let Some(pid) = child.id() {
            berth.note(Leftover::process(pid))?;
        }
        let cgroup = Self::group(berth.id(), limits);
        if let (Some(cgroup), Some(pid)) = (&cgroup, child.id()) {
            let _ = cgroup.take(pid);
        }
        let stdout = child.stdout.take().ok_or_else(|| start("no console".to_owned()))?;
        let stderr = child.stderr.take().ok_or_else(|| start("no standard error".to_owned()))?;
        Ok(VmHandle::new(child, cgroup, Words::of(stdout), Words::of(stderr)))
    }
}

fn prepare(agent: &Path, folder: Option<PathBuf>, image: &Image) -> Result<Prepared, Error> {
    let refused = |error: ImageError| start(error.to_string());
    let images = folder.map_or_else(Images::find, Images::open).map_err(refused)?;
    let parts = images.parts(image).map_err(refused)?;
    let initrd = initrd::prepare(&parts.root, agent, &images.folder().join("started"))?;
    let name = initrd.file_stem().unwrap_or_default().to_string_lossy();
    let sum = format!("{} {name}", parts.kernel_sum);
    Ok(Prepared { kernel: parts.kernel, initrd, sum })
}

fn command(machine: &Machine<'_>) -> Command {
    let mut command = Command::new(qemu::PROGRAM);
    command.args(machine.args()).env_clear().current_dir("/").kill_on_drop(true);
    if let Some(path) = env::var_os("PATH") {
        command.env("PATH", path);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn start(problem: String) -> Error {
    Error::Start { backend: NAME, problem }
}
