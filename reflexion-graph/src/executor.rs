//! Executes programs in a pool of pre-started sandboxes, each of which is used once.

mod backend_names;
mod backends;
mod error;
mod judge;
mod options;

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use sandbox_vm::{
    Error, Image, PartialOutput, Pool, PoolMetrics, PooledSandbox, Sandboxes, Spec,
    report::Guarantee,
};

pub use backend_names::BACKENDS;
pub use error::ExecutorError;
pub use options::Options;
pub(crate) use options::{DISK, PROCESSES};

use crate::{
    execution::{Execution, Status},
    job::{Job, MAX_CODE},
    language::Language,
    wheels::Wheels,
};

/// Name of the directory that contains the packages, in the root directory of a sandbox.
const PACKAGES: &str = "packages";

/// Maximum number of attempts to start a sandbox.
const START_ATTEMPTS: u32 = 3;
/// Delay before the second attempt to start a sandbox. The delay doubles with each further attempt.
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(200);

/// Executes programs of one language in a pool of sandboxes. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Executor {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    sandboxes: Sandboxes,
    /// `None` after the executor was closed. This is a `std` mutex because it is never held across an await point.
    pool: Mutex<Option<Pool>>,
    size: usize,
    language: Box<dyn Language>,
    wheels: Wheels,
    in_use: AtomicUsize,
    peak_in_use: AtomicUsize,
    executions: AtomicU64,
}

/// Statistics of an [`Executor`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ExecutorStats {
    /// Maximum number of sandboxes.
    pub size: usize,
    pub in_use: usize,
    /// Highest number of sandboxes that were in use at the same time.
    pub peak_in_use: usize,
    /// Number of running sandboxes, idle ones included.
    pub alive: usize,
    pub executions: u64,
    pub pool: PoolMetrics,
}

impl Executor {
    /// Opens a sandbox back end and starts to fill the pool.
    pub async fn open(options: Options) -> Result<Self, ExecutorError> {
        let sandboxes = backends::open(&options).await?;
        let mut spec = Spec::new(format!("agent-sandbox-{}", std::process::id()))
            .image(Image::Python)
            .memory(options.memory.saturating_mul(1 << 20))
            .cpus(options.cpus);
        spec.limits.disk = DISK;
        spec.limits.processes = PROCESSES;
        if !options.wheels.is_empty() {
            spec = spec.shared_dir(PACKAGES, packages(&options, &sandboxes).await?);
        }
        let pool =
            Pool::of(sandboxes.clone(), spec).size(options.pool).max_sandboxes(options.pool).open();
        Ok(Self {
            shared: Arc::new(Shared {
                sandboxes,
                pool: Mutex::new(Some(pool)),
                size: options.pool,
                language: options.language,
                wheels: options.wheels,
                in_use: AtomicUsize::new(0),
                peak_in_use: AtomicUsize::new(0),
                executions: AtomicU64::new(0),
            }),
        })
    }

    /// Returns the language of the programs.
    pub fn language(&self) -> &dyn Language {
        &*self.shared.language
    }

    /// Returns the packages that programs may use.
    pub fn wheels(&self) -> &Wheels {
        &self.shared.wheels
    }

    /// Returns whether a kernel limits the memory of the programs. If not, a hostile program can hold a multiple of its
    /// limit for a short time.
    pub fn memory_bounded(&self) -> bool {
        self.sandboxes().report().has(Guarantee::MemoryLimit)
    }

    /// Returns the [`Sandboxes`] from which the pool is filled.
    pub fn sandboxes(&self) -> &Sandboxes {
        &self.shared.sandboxes
    }

    pub fn stats(&self) -> ExecutorStats {
        let shared = &self.shared;
        ExecutorStats {
            size: shared.size,
            in_use: shared.in_use.load(Ordering::Relaxed),
            peak_in_use: shared.peak_in_use.load(Ordering::Relaxed),
            alive: shared.sandboxes.list().len(),
            executions: shared.executions.load(Ordering::Relaxed),
            pool: shared.pool().map(|it| it.metrics()).unwrap_or_default(),
        }
    }

    /// Deletes all sandboxes. Later calls to [`Executor::run`] fail.
    pub async fn close(&self) {
        self.shared.lock_pool().take();
        self.shared.sandboxes.delete_all().await;
    }

    /// Runs a program in a fresh sandbox, deletes the sandbox and checks the result against the job. If the sandbox
    /// fails during the execution, returns an execution with a failure status. Returns an error only if no sandbox
    /// could be started.
    pub async fn run(
        &self,
        code: &str,
        dependencies: &[String],
        job: &Job,
    ) -> Result<Execution, ExecutorError> {
        if code.trim().is_empty() {
            return Ok(Execution::not_run(Status::NoProgram, "the program is empty"));
        }
        let length = code.chars().count();
        if length > MAX_CODE {
            let why = format!("the program has {length} characters; the maximum is {MAX_CODE}");
            return Ok(Execution::not_run(Status::NoProgram, why));
        }
        let wanted = match self.shared.wheels.resolve(dependencies, self.language()) {
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
        // The program may have caused the failure, so the failure is passed to the critic instead of aborting the
        // session.
        let mut execution = ran.unwrap_or_else(|error| {
            tracing::error!(container_id = sandbox.name(), %error, "Internal error");
            judge::of_error(&error)
        });
        sandbox.name().clone_into(&mut execution.sandbox);
        execution.isolation = Some(sandbox.level());
        execution.memory_bounded = Some(self.memory_bounded());
        tracing::info!(
            exit_code = execution.exit_code,
            duration_ms = execution.duration_ms,
            status = execution.status.description(),
            "Execution complete"
        );
        Ok(execution)
    }

    /// Takes a sandbox from the pool. Retries, because starting a sandbox can fail temporarily.
    async fn acquire(&self) -> Result<PooledSandbox, ExecutorError> {
        let pool = self.shared.pool().ok_or(ExecutorError::Closed)?;
        let mut tries = 1;
        loop {
            match pool.acquire().await {
                Err(error) if tries < START_ATTEMPTS => {
                    tracing::warn!(%error, tries, "cannot start a sandbox; retrying");
                    tokio::time::sleep(FIRST_RETRY_DELAY * 2u32.pow(tries - 1)).await;
                    tries += 1;
                }
                acquired => return Ok(acquired?),
            }
        }
    }

    async fn run_in(
        &self,
        sandbox: &PooledSandbox,
        code: &str,
        packages: &[String],
        job: &Job,
    ) -> Result<Execution, ExecutorError> {
        let language = self.language();
        sandbox.fs().write(language.file(), code).await?;
        let program = match &job.tests {
            None => language.run(),
            Some(tests) => language.test(tests),
        };
        let program = language.find(program, packages).limits(judge::limits(job));
        let mut partial = PartialOutput::default();
        match sandbox.exec_with_partial_output(program, &mut partial).await {
            Ok(output) => Ok(judge::of_output(&output, job)),
            Err(error) => match &error {
                Error::Terminated { .. } | Error::Timeout { .. } => {
                    Ok(judge::of_crash(&error, &partial))
                }
                _ => Err(error.into()),
            },
        }
    }
}

/// Unpacks the packages and returns their directory. Fails if the back end cannot mount directories into its sandboxes.
async fn packages(options: &Options, sandboxes: &Sandboxes) -> Result<PathBuf, ExecutorError> {
    if !sandboxes.report().has(Guarantee::SharedDirectories) {
        return Err(ExecutorError::NoPackages(sandboxes.backend()));
    }
    let (wheels, cache) = (options.wheels.clone(), options.cache.clone());
    let work = tokio::task::spawn_blocking(move || wheels.unpack_all(cache.as_deref()));
    Ok(work.await.expect("unpacking does not panic")?)
}

impl Shared {
    fn lock_pool(&self) -> MutexGuard<'_, Option<Pool>> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pool(&self) -> Option<Pool> {
        self.lock_pool().clone()
    }

    /// Counts a running program until the returned guard is dropped.
    fn begin(self: &Arc<Self>) -> Busy {
        let now = self.in_use.fetch_add(1, Ordering::Relaxed) + 1;
        self.peak_in_use.fetch_max(now, Ordering::Relaxed);
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
