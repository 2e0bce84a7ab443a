//! All sandboxes of a process: making, finding, expiring and removing them.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use graph_core::checkpoint::CheckpointId;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use crate::{
    Error, Sandbox,
    backend::{Backend, Snapshot, Workload},
    report::{Guarantee, Report},
    sandbox::WeakSandbox,
    sandbox_dir::{self, SandboxDir},
    spec::Spec,
};

/// How often a sandbox is looked at for having expired.
const EXPIRY_CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// How much isolation is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// None but isolated sandboxes are made; where no back end isolates, making one fails.
    #[default]
    Required,
    /// The strongest back end there is, though it may not isolate; its sandboxes say that they do not.
    Preferred,
    /// None is wanted: the weakest back end is taken.
    Off,
}

/// All sandboxes of a process. Cheap to clone; with the last clone all are removed that nobody else holds.
///
/// ```no_run
/// use sandbox_vm::{Isolation, Program, Sandboxes, Spec, backend::Jail};
///
/// # async fn example() -> Result<(), sandbox_vm::Error> {
/// let sandboxes = Sandboxes::builder().backend(Jail::this_program()).isolation(Isolation::Required).open().await?;
/// let sandbox = sandboxes.create_if_not_exists(Spec::new("job-7")).await?;
/// sandbox.fs().write("note.txt", "hello").await?;
/// sandbox.delete().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Sandboxes {
    shared: Arc<Shared>,
}

struct Shared {
    backend: Arc<dyn Backend>,
    isolated: bool,
    reports: Vec<Report>,
    state_dir: PathBuf,
    start_timeout: Duration,
    // A std mutex: held for a moment, never over an await.
    live: Mutex<BTreeMap<String, Slot>>,
}

/// A sandbox of a name: made once though many ask for it at the same time.
type Slot = Arc<tokio::sync::OnceCell<Sandbox>>;

/// What [`Sandboxes`] are to be: back ends, isolation, folders.
#[derive(Debug)]
#[must_use]
pub struct SandboxesBuilder {
    backends: Vec<Arc<dyn Backend>>,
    isolation: Isolation,
    state_dir: PathBuf,
    start_timeout: Duration,
}

impl Sandboxes {
    /// Says what they are to be, before they are opened.
    pub fn builder() -> SandboxesBuilder {
        SandboxesBuilder {
            backends: Vec::new(),
            isolation: Isolation::default(),
            state_dir: sandbox_dir::default_state_dir(),
            start_timeout: Duration::from_secs(60),
        }
    }

    /// Gives the sandbox of this name: the one that lives, or a new one.
    ///
    /// The one that lives must be what is asked for: if its spec is another one this is an error, for it may have more
    /// memory, another image or a shorter life than the caller counts on. Its idle time starts again.
    pub async fn create_if_not_exists(&self, spec: Spec) -> Result<Sandbox, Error> {
        spec.check()?;
        loop {
            let slot = self.shared.slots().entry(spec.name.clone()).or_default().clone();
            let create = || self.shared.create(&spec, &Origin::Boot);
            // If it fails the next one who waits for it tries, and the slot stays known meanwhile.
            let sandbox = slot.get_or_try_init(create).await?;
            if sandbox.termination_reason().is_none() && *sandbox.spec() != spec {
                let problem = "one of this name lives and has another spec; ask for the same, delete it first or choose \
                               another name";
                return Err(Error::BadSpec { name: spec.name, problem });
            }
            if sandbox.touch() {
                return Ok(sandbox.clone());
            }
        }
    }

    /// Makes a sandbox from a snapshot; no other of its name may live. It is given fresh randomness and the time
    /// before anybody can use it.
    pub async fn restore(&self, spec: Spec, snapshot: Snapshot) -> Result<Sandbox, Error> {
        spec.check()?;
        if snapshot.backend != self.backend() {
            let problem = format!("{} made it, and here is {}", snapshot.backend, self.backend());
            return Err(Error::Snapshot { dir: snapshot.dir, problem });
        }
        let problem = "one of this name lives; delete it first or choose another name";
        let name_taken = Error::BadSpec { name: spec.name.clone(), problem };
        let Some(slot) = self.shared.reserve_slot(&spec.name) else { return Err(name_taken) };
        let (origin, mut is_new) = (Origin::Snapshot(snapshot), false);
        let create = || {
            is_new = true;
            self.shared.create(&spec, &origin)
        };
        let sandbox = slot.get_or_try_init(create).await?.clone();
        // Or somebody who wants any sandbox of this name was faster.
        if is_new { Ok(sandbox) } else { Err(name_taken) }
    }

    /// The sandbox of this name, if it lives.
    pub fn get(&self, name: &str) -> Option<Sandbox> {
        let live = lock(&self.shared.live);
        live.get(name)?.get().filter(|it| it.termination_reason().is_none()).cloned()
    }

    /// All that live, sorted by name.
    pub fn list(&self) -> Vec<Sandbox> {
        let live = lock(&self.shared.live);
        live.values()
            .filter_map(|it| it.get())
            .filter(|it| it.termination_reason().is_none())
            .cloned()
            .collect()
    }

    /// Those with this label, sorted by name. A sandbox's region counts as its label `region`.
    pub fn find_by_label(&self, key: &str, value: &str) -> Vec<Sandbox> {
        let has = |it: &Sandbox| match (key, &it.spec().region) {
            ("region", Some(region)) => region == value,
            _ => it.labels().get(key).is_some_and(|it| it == value),
        };
        let mut found = self.list();
        found.retain(has);
        found
    }

    /// What each back end can do on this machine, strongest first.
    pub fn reports(&self) -> &[Report] {
        &self.shared.reports
    }

    /// What the back end that was chosen can do.
    pub(crate) fn can(&self, guarantee: Guarantee) -> bool {
        self.shared.can(guarantee)
    }

    /// How much memory of the host such a sandbox takes.
    pub(crate) fn footprint(&self, spec: &Spec) -> u64 {
        self.shared.backend.footprint(spec)
    }

    /// A folder for something that belongs to several sandboxes; removed like theirs.
    pub(crate) fn create_dir(&self) -> Result<SandboxDir, Error> {
        SandboxDir::create(&self.shared.state_dir, &CheckpointId::next().to_string())
    }

    /// The back end that was chosen.
    pub fn backend(&self) -> &'static str {
        self.shared.backend.name()
    }

    /// Whether its sandboxes are isolated.
    pub fn isolated(&self) -> bool {
        self.shared.isolated
    }

    /// Removes all that live.
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
    /// Adds a back end. Those that are added first are preferred: add the strongest first.
    pub fn backend(mut self, backend: impl Backend + 'static) -> Self {
        self.backends.push(Arc::new(backend));
        self
    }

    /// Adds all back ends that isolate, strongest first, for guests that are this program: see
    /// [`isolating`](crate::backend::isolating_backends).
    pub fn isolating_backends(mut self, program: impl Into<PathBuf>, runs: Workload) -> Self {
        self.backends.extend(crate::backend::isolating_backends(program, runs));
        self
    }

    /// Says how much isolation is wanted; it is required unless it is said.
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }

    /// Keeps what belongs to the sandboxes in this folder, which must belong to this user alone.
    pub fn state_dir(mut self, dir: impl AsRef<Path>) -> Self {
        self.state_dir = dir.as_ref().to_owned();
        self
    }

    /// Gives a guest so long to start; a minute unless it is said.
    pub fn start_timeout(mut self, start_timeout: Duration) -> Self {
        self.start_timeout = start_timeout;
        self
    }

    /// Looks at what the back ends can do, chooses one, and removes what crashed processes of this user left behind,
    /// in this folder or in others.
    pub async fn open(self) -> Result<Sandboxes, Error> {
        let Self { backends, isolation, state_dir, start_timeout } = self;
        let dir = state_dir.clone();
        let reap = move || sandbox_dir::remove_all_orphans(&dir);
        let reaped = tokio::task::spawn_blocking(reap).await.unwrap_or(0);
        if reaped > 0 {
            tracing::info!(reaped, "removed sandboxes of processes that are no more");
        }
        let mut reports = Vec::new();
        for backend in &backends {
            reports.push(backend.probe().await);
        }
        let (backend, report) = choose_backend(&backends, &reports, isolation)?;
        let isolated = report.is_isolated();
        if !isolated {
            tracing::warn!(
                backend = backend.name(),
                "NOT ISOLATED: sandboxes have the rights of this process"
            );
        }
        let shared = Arc::new(Shared {
            backend,
            isolated,
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
        Isolation::Required => pairs.find(|(_, it)| it.is_isolated()),
        Isolation::Preferred => {
            let isolated = pairs.clone().find(|(_, it)| it.is_isolated());
            isolated.or_else(|| pairs.find(|(_, it)| it.is_available()))
        }
        Isolation::Off => pairs.rfind(|(_, it)| it.is_available()),
    };
    match chosen {
        Some((backend, report)) => Ok((backend.clone(), report)),
        None => {
            let reason = |it: &Report| match &it.problem {
                Some(problem) => format!("{}: {problem}", it.backend),
                None => format!("{}: does not isolate", it.backend),
            };
            let reasons: Vec<_> = reports.iter().map(reason).collect();
            let reasons = if reasons.is_empty() {
                "no back end was added".to_owned()
            } else {
                reasons.join("; ")
            };
            Err(Error::NoIsolation(reasons))
        }
    }
}

/// What a guest starts from.
enum Origin {
    Boot,
    Snapshot(Snapshot),
}

impl Shared {
    /// All slots but those whose sandbox is gone, or that nobody will ever give one.
    fn slots(&self) -> MutexGuard<'_, BTreeMap<String, Slot>> {
        let mut live = lock(&self.live);
        live.retain(|_, it| match it.get() {
            Some(sandbox) => sandbox.termination_reason().is_none(),
            // Whoever is about to make one holds the slot too.
            None => Arc::strong_count(it) > 1,
        });
        live
    }

    fn can(&self, guarantee: Guarantee) -> bool {
        let name = self.backend.name();
        self.reports.iter().any(|it| it.backend == name && it.has(guarantee))
    }

    /// A new slot for a name that no sandbox has, and none is about to have.
    fn reserve_slot(&self, name: &str) -> Option<Slot> {
        match self.slots().entry(name.to_owned()) {
            Entry::Occupied(_) => None,
            Entry::Vacant(entry) => Some(entry.insert(Slot::default()).clone()),
        }
    }

    async fn create(self: &Arc<Self>, spec: &Spec, origin: &Origin) -> Result<Sandbox, Error> {
        if !spec.shared_dirs.is_empty() && !self.can(Guarantee::SharedDirectories) {
            let operation = "show a guest folders of the host";
            return Err(Error::Unsupported { backend: self.backend.name(), operation });
        }
        let sandbox_dir = SandboxDir::create(&self.state_dir, &CheckpointId::next().to_string())?;
        let (guest, reseed) = match origin {
            Origin::Boot => (self.backend.start(spec, &sandbox_dir).await?, false),
            Origin::Snapshot(snapshot) => {
                (self.backend.restore(spec, &sandbox_dir, snapshot).await?, true)
            }
        };
        let backend = (self.backend.name(), self.isolated);
        let sandbox =
            Sandbox::connect(spec.clone(), backend, sandbox_dir, guest, self.start_timeout).await?;
        if reseed && !sandbox.reseed(fresh_seed()?).await?.is_complete() {
            let problem = "the restored guest took no new randomness, or not the time".to_owned();
            return Err(Error::Start { backend: self.backend.name(), problem });
        }
        tokio::spawn(remove_when_overdue(sandbox.downgrade(), Arc::downgrade(self)));
        Ok(sandbox)
    }
}

/// Removes a sandbox once it has expired, broken a limit of time, or died. Each has a task of its own: one that is slow
/// to end holds up no other. It ends with the sandbox, and not with all of them.
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
    read.map_err(Error::io("randomness for a restored guest"))?;
    Ok(seed)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
