//! Creates, finds, expires and removes all sandboxes of a host process.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, Weak},
    time::Duration,
};

use graph_core::checkpoint::CheckpointId;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use crate::{
    Error, Sandbox,
    backend::{Backend, Snapshot, Workload},
    report::{Guarantee, IsolationLevel, Report},
    sandbox::WeakSandbox,
    sandbox_dir::{self, SandboxDir},
    spec::Spec,
    sync::lock,
};

/// Interval at which each sandbox is checked for expiry.
const EXPIRY_CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Required isolation. [`SandboxesBuilder::open`] uses the first added back end that provides the required level, so
/// add the strongest back end first. It fails if no back end provides the level; see [`IsolationLevel`] for the levels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// Guests must run in virtual machines.
    Vm,
    /// Guests must run on their own kernel or in virtual machines.
    Kernel,
    /// Guests must be isolated, at least as confined processes that share the host's kernel.
    #[default]
    // The former name of this requirement, which stored runs may contain.
    #[serde(alias = "required")]
    Process,
    /// Isolation is preferred: the first added back end that isolates guests is used. If none isolates them, the first
    /// back end that is available is used, and its sandboxes report that they are not isolated.
    Preferred,
    /// Isolation is not needed: the last added back end that is available is used, whether it isolates guests or not.
    Off,
}

impl Isolation {
    /// Returns the weakest level that meets the requirement.
    pub fn minimum(self) -> IsolationLevel {
        match self {
            Self::Vm => IsolationLevel::Vm,
            Self::Kernel => IsolationLevel::Kernel,
            Self::Process => IsolationLevel::Process,
            Self::Preferred | Self::Off => IsolationLevel::Off,
        }
    }
}

/// Manages the sandboxes of a process. Cheap to clone. Dropping the last clone removes the sandboxes that have no other
/// handle.
///
/// ```standalone_crate
/// use sandbox_vm::{Isolation, Sandboxes, Spec, backend::Jail, guest::{self, Agent}};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// guest::enter(Agent::new);
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let sandboxes = Sandboxes::builder().backend(Jail::this_program()).isolation(Isolation::Process).open().await?;
/// let sandbox = sandboxes.create_if_not_exists(Spec::new("job-7")).await?;
/// sandbox.fs().write("note.txt", "hello").await?;
/// assert_eq!(sandbox.fs().read("note.txt").await?, b"hello");
/// sandbox.delete().await;
/// # Ok(())
/// # })
/// # }
/// ```
#[derive(Clone)]
pub struct Sandboxes {
    shared: Arc<Shared>,
}

struct Shared {
    backend: Arc<dyn Backend>,
    /// Report of the chosen back end.
    report: Report,
    reports: Vec<Report>,
    state_dir: PathBuf,
    start_timeout: Duration,
    // This is a std mutex because it is held only briefly and never across an await.
    live: Mutex<BTreeMap<String, Slot>>,
}

/// Holds the sandbox with a given name. The sandbox is created only once, even if several callers request it
/// concurrently.
type Slot = Arc<tokio::sync::OnceCell<Sandbox>>;

/// Options for [`Sandboxes`]: the back ends, the required isolation, the state directory and the start timeout.
///
/// ```
/// use sandbox_vm::{Isolation, Sandboxes, backend::InProcess, guest::Agent};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// // The default requires isolation, which this back end does not provide.
/// let strict = Sandboxes::builder().backend(InProcess::new(Agent::new));
/// # let strict = strict.state_dir(dir.path());
/// assert!(strict.open().await.is_err());
///
/// let relaxed = Sandboxes::builder().backend(InProcess::new(Agent::new)).isolation(Isolation::Preferred);
/// # let relaxed = relaxed.state_dir(dir.path());
/// assert!(!relaxed.open().await?.isolated());
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use]
pub struct SandboxesBuilder {
    backends: Vec<Arc<dyn Backend>>,
    isolation: Isolation,
    state_dir: PathBuf,
    start_timeout: Duration,
}

impl Sandboxes {
    /// Returns a builder with default options and no back ends.
    pub fn builder() -> SandboxesBuilder {
        SandboxesBuilder {
            backends: Vec::new(),
            isolation: Isolation::default(),
            state_dir: sandbox_dir::default_state_dir(),
            start_timeout: Duration::from_secs(180),
        }
    }

    /// Returns the live sandbox named in the spec, or creates it.
    ///
    /// Returns an error if a live sandbox with this name has a different spec, because it might have more memory,
    /// another image or a shorter lifetime than the caller expects. If the sandbox already exists, its idle time
    /// restarts.
    pub async fn create_if_not_exists(&self, spec: Spec) -> Result<Sandbox, Error> {
        spec.check()?;
        loop {
            let slot = self.shared.slots().entry(spec.name.clone()).or_default().clone();
            let create = || self.shared.create(&spec, &Origin::Boot);
            // If the creation fails, the next caller that is waiting for the slot tries again. The slot stays
            // registered in the meantime.
            let sandbox = slot.get_or_try_init(create).await?;
            if sandbox.termination_reason().is_none() && *sandbox.spec() != spec {
                let problem = "a live sandbox with this name has a different spec; use the same spec, delete the sandbox or choose \
                               another name";
                return Err(Error::BadSpec { name: spec.name, problem });
            }
            if sandbox.touch() {
                return Ok(sandbox.clone());
            }
        }
    }

    /// Creates a sandbox from a snapshot. Fails if a live sandbox already has the name in the spec. Before the sandbox
    /// can be used, its guest gets new random state and the current time.
    pub async fn restore(&self, spec: Spec, snapshot: Snapshot) -> Result<Sandbox, Error> {
        spec.check()?;
        if snapshot.backend != self.backend() {
            let problem = format!(
                "it was made by back end `{}`, but the current back end is `{}`",
                snapshot.backend,
                self.backend()
            );
            return Err(Error::Snapshot { dir: snapshot.dir, problem });
        }
        let problem = "a live sandbox has this name; delete it first or choose another name";
        let name_taken = Error::BadSpec { name: spec.name.clone(), problem };
        let Some(slot) = self.shared.reserve_slot(&spec.name) else { return Err(name_taken) };
        let (origin, mut is_new) = (Origin::Snapshot(snapshot), false);
        let create = || {
            is_new = true;
            self.shared.create(&spec, &origin)
        };
        let sandbox = slot.get_or_try_init(create).await?.clone();
        // If `create` was not called, another caller has created a sandbox with this name first.
        if is_new { Ok(sandbox) } else { Err(name_taken) }
    }

    /// Returns the live sandbox with this name, if there is one.
    pub fn get(&self, name: &str) -> Option<Sandbox> {
        let live = lock(&self.shared.live);
        live.get(name)?.get().filter(|it| it.termination_reason().is_none()).cloned()
    }

    /// Returns all live sandboxes, sorted by name.
    pub fn list(&self) -> Vec<Sandbox> {
        let live = lock(&self.shared.live);
        live.values()
            .filter_map(|it| it.get())
            .filter(|it| it.termination_reason().is_none())
            .cloned()
            .collect()
    }

    /// Returns the live sandboxes with this label, sorted by name. The region of a sandbox counts as its label
    /// `region`.
    pub fn find_by_label(&self, key: &str, value: &str) -> Vec<Sandbox> {
        let has = |it: &Sandbox| match (key, &it.spec().region) {
            ("region", Some(region)) => region == value,
            _ => it.labels().get(key).is_some_and(|it| it == value),
        };
        let mut found = self.list();
        found.retain(has);
        found
    }

    /// Returns the capability report of each back end on this machine, in the order in which the back ends were added.
    pub fn reports(&self) -> &[Report] {
        &self.shared.reports
    }

    /// Returns the capability report of the chosen back end.
    pub fn report(&self) -> &Report {
        &self.shared.report
    }

    /// Returns the host memory, in bytes, that a sandbox with this spec takes.
    pub(crate) fn footprint(&self, spec: &Spec) -> u64 {
        self.shared.backend.footprint(spec)
    }

    /// Creates a sandbox directory for data that several sandboxes share. It is cleaned up in the same way as the
    /// directory of a sandbox.
    pub(crate) fn create_dir(&self) -> Result<SandboxDir, Error> {
        SandboxDir::create(&self.shared.state_dir, &CheckpointId::next().to_string())
    }

    /// Returns the name of the chosen back end.
    pub fn backend(&self) -> &'static str {
        self.shared.backend.name()
    }

    /// Returns whether the sandboxes are isolated.
    pub fn isolated(&self) -> bool {
        self.level() > IsolationLevel::Off
    }

    /// Returns how strongly the sandboxes are isolated from the host.
    pub fn level(&self) -> IsolationLevel {
        self.report().level()
    }

    /// Deletes all live sandboxes.
    pub async fn delete_all(&self) {
        let delete = |it: Sandbox| async move { it.delete().await };
        self.list().into_iter().map(delete).collect::<JoinSet<()>>().join_all().await;
    }
}

impl fmt::Debug for Sandboxes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: BTreeSet<_> = lock(&self.shared.live).keys().cloned().collect();
        f.debug_struct("Sandboxes")
            .field("backend", &self.backend())
            .field("live", &names)
            .finish_non_exhaustive()
    }
}

impl SandboxesBuilder {
    /// Adds a back end. Back ends that are added earlier are preferred, so add the strongest one first.
    pub fn backend(mut self, backend: impl Backend + 'static) -> Self {
        self.backends.push(Arc::new(backend));
        self
    }

    /// Adds all isolating back ends, strongest first. Their guests run `program`. See
    /// [`isolating_backends`](crate::backend::isolating_backends).
    pub fn isolating_backends(mut self, program: impl Into<PathBuf>, runs: Workload) -> Self {
        self.backends.extend(crate::backend::isolating_backends(program, runs));
        self
    }

    /// Sets the required level of isolation; the default is [`Isolation::Process`].
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }

    /// Sets the directory that holds the sandbox directories. It must be owned by this user and not writable by others.
    pub fn state_dir(mut self, dir: impl AsRef<Path>) -> Self {
        self.state_dir = dir.as_ref().to_owned();
        self
    }

    /// Sets the time limit for the handshake with a new guest; the default is three minutes, because a VM
    /// starts slowly on a busy machine.
    pub fn start_timeout(mut self, start_timeout: Duration) -> Self {
        self.start_timeout = start_timeout;
        self
    }

    /// Probes the back ends and chooses one. Also removes what crashed processes of this user left behind, both in this
    /// state directory and in all other state directories that this user has used.
    pub async fn open(self) -> Result<Sandboxes, Error> {
        let Self { backends, isolation, state_dir, start_timeout } = self;
        let dir = state_dir.clone();
        let remove = move || sandbox_dir::remove_all_orphans(&dir);
        let removed = tokio::task::spawn_blocking(remove).await.unwrap_or(0);
        if removed > 0 {
            tracing::info!(removed, "removed sandboxes of crashed processes");
        }
        let mut reports = Vec::new();
        for backend in &backends {
            reports.push(backend.probe().await);
        }
        let (backend, report) = choose_backend(&backends, &reports, isolation)?;
        if !report.is_isolated() {
            tracing::warn!(
                backend = backend.name(),
                "NOT ISOLATED: sandboxes have the privileges of this process"
            );
        }
        if let Some(warning) = report.memory_warning() {
            tracing::warn!(backend = backend.name(), "{warning}");
        }
        let shared = Arc::new(Shared {
            backend,
            report: report.clone(),
            reports,
            state_dir,
            start_timeout,
            live: Mutex::default(),
        });
        Ok(Sandboxes { shared })
    }
}

fn choose_backend<'a>(
    backends: &[Arc<dyn Backend>],
    reports: &'a [Report],
    isolation: Isolation,
) -> Result<(Arc<dyn Backend>, &'a Report), Error> {
    let mut pairs = backends.iter().zip(reports);
    let chosen = match isolation {
        Isolation::Preferred => {
            let isolated = pairs.clone().find(|(_, it)| it.is_isolated());
            isolated.or_else(|| pairs.find(|(_, it)| it.is_available()))
        }
        Isolation::Off => pairs.rfind(|(_, it)| it.is_available()),
        required => pairs.find(|(_, it)| it.level() >= required.minimum()),
    };
    match chosen {
        Some((backend, report)) => Ok((backend.clone(), report)),
        None => {
            let reason = |it: &Report| match &it.problem {
                Some(problem) => format!("{}: {problem}", it.backend),
                None if it.is_isolated() => {
                    format!("{}: provides only isolation `{}`", it.backend, it.level())
                }
                None => format!("{}: does not isolate", it.backend),
            };
            let reasons: Vec<_> = reports.iter().map(reason).collect();
            let problems = if reasons.is_empty() {
                "no back end was added".to_owned()
            } else {
                reasons.join("; ")
            };
            Err(Error::NoIsolation { required: isolation.minimum(), problems })
        }
    }
}

/// The state in which a guest starts: freshly booted, or restored from a snapshot.
enum Origin {
    Boot,
    Snapshot(Snapshot),
}

impl Shared {
    /// Returns all slots. First removes slots whose sandbox has terminated and empty slots that no caller will fill.
    fn slots(&self) -> MutexGuard<'_, BTreeMap<String, Slot>> {
        let mut live = lock(&self.live);
        live.retain(|_, it| match it.get() {
            Some(sandbox) => sandbox.termination_reason().is_none(),
            // A caller that is about to create the sandbox holds a second reference to the slot.
            None => Arc::strong_count(it) > 1,
        });
        live
    }

    /// Registers a new slot for a name. Returns `None` if the name is already in use.
    fn reserve_slot(&self, name: &str) -> Option<Slot> {
        match self.slots().entry(name.to_owned()) {
            Entry::Occupied(_) => None,
            Entry::Vacant(entry) => Some(entry.insert(Slot::default()).clone()),
        }
    }

    async fn create(self: &Arc<Self>, spec: &Spec, origin: &Origin) -> Result<Sandbox, Error> {
        if !spec.shared_dirs.is_empty() && !self.report.has(Guarantee::SharedDirectories) {
            let operation = "share directories of the host with a guest";
            return Err(Error::Unsupported { backend: self.backend.name(), operation });
        }
        let sandbox_dir = SandboxDir::create(&self.state_dir, &CheckpointId::next().to_string())?;
        let (guest, reseed) = match origin {
            Origin::Boot => (self.backend.start(spec, &sandbox_dir).await?, false),
            Origin::Snapshot(snapshot) => {
                (self.backend.restore(spec, &sandbox_dir, snapshot).await?, true)
            }
        };
        let backend = (self.backend.name(), self.report.level());
        let sandbox =
            Sandbox::connect(spec.clone(), backend, sandbox_dir, guest, self.start_timeout).await?;
        if reseed && !sandbox.reseed(fresh_seed()?).await?.is_complete() {
            let problem =
                "the restored guest did not accept new random state or the current time".to_owned();
            return Err(Error::Start { backend: self.backend.name(), problem });
        }
        tokio::spawn(remove_when_overdue(sandbox.downgrade(), Arc::downgrade(self)));
        Ok(sandbox)
    }
}

/// Removes a sandbox once it has exceeded a time limit or its guest has exited. Each sandbox has its own tokio task, so
/// that one sandbox that is slow to end does not delay others. The task ends when its sandbox does.
async fn remove_when_overdue(sandbox: WeakSandbox, all: Weak<Shared>) {
    loop {
        tokio::time::sleep(EXPIRY_CHECK_INTERVAL).await;
        let Some(sandbox) = sandbox.upgrade() else { return };
        if sandbox.termination_reason().is_none() {
            sandbox.terminate_if_overdue().await;
        }
        if sandbox.termination_reason().is_some() {
            if let Some(all) = all.upgrade() {
                drop(all.slots());
            }
            return;
        }
    }
}

fn fresh_seed() -> Result<Vec<u8>, Error> {
    use std::io::Read;
    let mut seed = vec![0; 64];
    let source = std::fs::File::open("/dev/urandom");
    let read = source.and_then(|mut it| it.read_exact(&mut seed));
    read.map_err(Error::io("cannot read random bytes for a restored guest"))?;
    Ok(seed)
}
