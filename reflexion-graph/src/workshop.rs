//! Where programs are run: a pool of sandboxes that are ready, each used for one program.

mod backends;
mod judge;

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use sandbox_vm::{
    Error, Image, Pool, PoolMetrics, Pooled, Sandboxes, Spec,
    report::{Guarantee, Report},
};

pub use backends::BACKENDS;

use crate::{
    execution::{Execution, Status},
    job::{Job, MAX_CODE},
    language::{Language, PROOF, Python},
    wheels::{WheelError, Wheels},
};

/// Bytes that a program may write to its outputs, together.
pub const OUTPUT: u64 = 1 << 20;

/// Bytes that its files may have.
pub const DISK: u64 = 64 << 20;

/// Processes and threads that it may have.
pub const PROCESSES: u32 = 64;

/// The folder of packages, at a sandbox's root.
const PACKAGES: &str = "packages";

/// How often a sandbox is tried to be had, and how long is waited before the second time.
const TRIES: u32 = 3;
const WAIT: Duration = Duration::from_millis(200);

/// What a workshop is to be.
#[derive(Debug)]
pub struct Options {
    /// The one back end to use; otherwise the jail, or the strongest that works where it does not.
    pub backend: Option<String>,
    /// So many sandboxes at once, ready or in use.
    pub pool: usize,
    /// MiB of memory of each.
    pub memory: u64,
    /// How much of a processor each gets.
    pub cpus: f64,
    /// What programs are written in.
    pub language: Box<dyn Language>,
    /// Packages that they may use.
    pub wheels: Wheels,
    /// Where packages are unpacked; the user's cache, or the system's for root, where nothing is said.
    pub cache: Option<PathBuf>,
    /// The program that is a guest's agent; this program where nothing is said.
    pub agent: Option<PathBuf>,
    /// Where what would outlive a crash is written down; a place of the user's own where nothing is said.
    pub state: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            backend: None,
            pool: 5,
            memory: 256,
            cpus: 0.5,
            language: Box::new(Python),
            wheels: Wheels::default(),
            cache: None,
            agent: None,
            state: None,
        }
    }
}

/// Why a program could not be run, through no fault of its own.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkshopError {
    /// No sandbox can be had.
    #[error(transparent)]
    Sandbox(#[from] Error),
    /// A package's file is not as it should be.
    #[error(transparent)]
    Wheel(#[from] WheelError),
    /// The operating system has no chance to give.
    #[error("no chance can be had from the operating system: {0}")]
    Chance(#[from] getrandom::Error),
    /// It was closed.
    #[error("the workshop is closed; no more programs are run")]
    Closed,
    /// Not even the simplest program runs.
    #[error("a program that prints 1 {words} here: {said}", words = .0.words(), said = .1)]
    Unusable(Status, String),
    /// Sandboxes of this kind cannot be shown packages.
    #[error(
        "sandboxes of the back end {0} cannot be shown packages; use another with --sandbox, or no --wheels"
    )]
    NoPackages(&'static str),
    /// A back end of this name is not part of the program.
    #[error("there is no sandbox `{0}`; there are: {known}", known = BACKENDS.join(", "))]
    NoBackend(String),
}

/// A pool of sandboxes, and the language of the programs that are run in them. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Workshop {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    sandboxes: Sandboxes,
    /// None once it is closed. A std mutex: held to clone or take it, never over an await.
    pool: Mutex<Option<Pool>>,
    size: usize,
    language: Box<dyn Language>,
    wheels: Wheels,
    in_use: AtomicUsize,
    most_in_use: AtomicUsize,
    executions: AtomicU64,
}

/// What a workshop has done.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct WorkshopStats {
    /// How many sandboxes there may be at once.
    pub size: usize,
    /// How many are in use.
    pub in_use: usize,
    /// How many were in use at once at most.
    pub most_in_use: usize,
    /// How many live, ready ones included.
    pub alive: usize,
    /// How many programs were run.
    pub executions: u64,
    /// What the pool says.
    pub pool: PoolMetrics,
}

impl Workshop {
    /// Opens a back end and starts to fill the pool.
    pub async fn open(options: Options) -> Result<Self, WorkshopError> {
        let sandboxes = backends::open(&options).await?;
        let mut spec = Spec::new(format!("agent-sandbox-{}", std::process::id()))
            .image(Image::Python)
            .memory(options.memory.saturating_mul(1 << 20))
            .cpus(options.cpus);
        spec.limits.disk = DISK;
        spec.limits.processes = PROCESSES;
        if !options.wheels.is_empty() {
            spec = spec.folder(PACKAGES, packages(&options, &sandboxes).await?);
        }
        let pool = Pool::of(sandboxes.clone(), spec).size(options.pool).most(options.pool).open();
        Ok(Self {
            shared: Arc::new(Shared {
                sandboxes,
                pool: Mutex::new(Some(pool)),
                size: options.pool,
                language: options.language,
                wheels: options.wheels,
                in_use: AtomicUsize::new(0),
                most_in_use: AtomicUsize::new(0),
                executions: AtomicU64::new(0),
            }),
        })
    }

    /// What programs are written in.
    pub fn language(&self) -> &dyn Language {
        &*self.shared.language
    }

    /// The packages that they may use.
    pub fn wheels(&self) -> &Wheels {
        &self.shared.wheels
    }

    /// The sandboxes, ready ones included.
    pub fn sandboxes(&self) -> &Sandboxes {
        &self.shared.sandboxes
    }

    /// What it has done so far.
    pub fn stats(&self) -> WorkshopStats {
        let shared = &self.shared;
        WorkshopStats {
            size: shared.size,
            in_use: shared.in_use.load(Ordering::Relaxed),
            most_in_use: shared.most_in_use.load(Ordering::Relaxed),
            alive: shared.sandboxes.list().len(),
            executions: shared.executions.load(Ordering::Relaxed),
            pool: shared.pool().map(|it| it.metrics()).unwrap_or_default(),
        }
    }

    /// Removes all sandboxes, and makes no more.
    pub async fn close(&self) {
        self.shared.lock_pool().take();
        self.shared.sandboxes.delete_all().await;
    }

    /// Runs a program in a sandbox that nobody has used and nobody will use again, and judges it by its job. A sandbox
    /// that fails is a failure of the attempt; it is an error only where none can be had.
    pub async fn run(
        &self,
        code: &str,
        dependencies: &[String],
        job: &Job,
    ) -> Result<Execution, WorkshopError> {
        if code.trim().is_empty() {
            return Ok(Execution::not_run(Status::NoProgram, "the program is empty"));
        }
        let length = code.chars().count();
        if length > MAX_CODE {
            let why = format!("the program has {length} characters; at most {MAX_CODE} are run");
            return Ok(Execution::not_run(Status::NoProgram, why));
        }
        let wanted = match self.shared.wheels.wanted(dependencies, self.language()) {
            Ok(wanted) => wanted.iter().map(|it| format!("/{PACKAGES}/{it}")).collect::<Vec<_>>(),
            Err(unavailable) => {
                let why = unavailable.to_string();
                return Ok(Execution::not_run(Status::DependencyUnavailable, why));
            }
        };
        let sandbox = self.acquire().await?;
        let _busy = self.shared.begin();
        tracing::info!(container_id = sandbox.name(), "Sandbox execution started");
        let ran = self.run_in(&sandbox, code, &wanted, job).await;
        // It may be the program's doing after all, so the critic hears of it, and another one is tried.
        let mut execution = ran.unwrap_or_else(|error| {
            tracing::error!(container_id = sandbox.name(), %error, "Internal error");
            judge::of_error(&error)
        });
        sandbox.name().clone_into(&mut execution.sandbox);
        execution.isolated = sandbox.isolated();
        tracing::info!(
            exit_code = execution.exit_code,
            duration_ms = execution.duration_ms,
            status = execution.status.words(),
            "Execution complete"
        );
        Ok(execution)
    }

    /// A sandbox from the pool; starts may fail for a moment.
    async fn acquire(&self) -> Result<Pooled, WorkshopError> {
        let pool = self.shared.pool().ok_or(WorkshopError::Closed)?;
        let mut tries = 1;
        loop {
            match pool.acquire().await {
                Err(error) if tries < TRIES => {
                    tracing::warn!(%error, tries, "no sandbox can be had; trying again");
                    tokio::time::sleep(WAIT * 2u32.pow(tries - 1)).await;
                    tries += 1;
                }
                acquired => return Ok(acquired?),
            }
        }
    }

    async fn run_in(
        &self,
        sandbox: &Pooled,
        code: &str,
        packages: &[String],
        job: &Job,
    ) -> Result<Execution, WorkshopError> {
        let language = self.language();
        sandbox.fs().write(language.file(), code).await?;
        let proof = chance()?;
        let program = match &job.tests {
            None => language.run(),
            Some(tests) => language.test(tests, &proof),
        };
        let program = language.find(program, packages).limits(judge::limits(job));
        let mut execution = match sandbox.exec(program).await {
            Ok(output) => judge::of_output(&output, job),
            Err(error) => match &error {
                Error::Gone { .. } | Error::NoAnswer { .. } => judge::of_fall(&error),
                _ => return Err(error.into()),
            },
        };
        if execution.success() && job.tests.is_some() {
            let proven = sandbox.fs().read(PROOF).await;
            if !proven.is_ok_and(|it| it == proof.as_bytes()) {
                execution.status = Status::TestsCutShort;
                execution.stderr +=
                    "\nthe program ended before its tests did; it must not end the process";
            }
        }
        Ok(execution)
    }
}

/// Unpacks the packages, where the back end can show them to its guests.
async fn packages(options: &Options, sandboxes: &Sandboxes) -> Result<PathBuf, WorkshopError> {
    let backend = sandboxes.backend();
    let can_show = |it: &Report| it.backend == backend && it.has(Guarantee::Folders);
    if !sandboxes.reports().iter().any(can_show) {
        return Err(WorkshopError::NoPackages(backend));
    }
    let (wheels, cache) = (options.wheels.clone(), options.cache.clone());
    let work = tokio::task::spawn_blocking(move || wheels.lay_out(cache.as_deref()));
    Ok(work.await.expect("it does not panic")?)
}

impl Shared {
    fn lock_pool(&self) -> MutexGuard<'_, Option<Pool>> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pool(&self) -> Option<Pool> {
        self.lock_pool().clone()
    }

    /// Counts a program that runs, until this is dropped.
    fn begin(self: &Arc<Self>) -> Busy {
        let now = self.in_use.fetch_add(1, Ordering::Relaxed) + 1;
        self.most_in_use.fetch_max(now, Ordering::Relaxed);
        self.executions.fetch_add(1, Ordering::Relaxed);
        Busy(self.clone())
    }
}

struct Busy(Arc<Shared>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.in_use.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Something that no program can guess.
fn chance() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().map(|it| format!("{it:02x}")).collect())
}
