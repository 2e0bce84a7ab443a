//! A pool of prestarted sandboxes, each of which is used once.

mod template;

use std::{
    collections::VecDeque,
    fmt,
    ops::Deref,
    sync::{Arc, Mutex, MutexGuard, Weak},
    time::Duration,
};

use graph_core::checkpoint::CheckpointId;
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot},
    time::Instant,
};

use self::template::{Template, Templates};
use crate::{Error, Sandbox, Sandboxes, Spec, report::Guarantee, sync::lock};

/// Number of most recent acquisitions that the metrics cover.
const METRICS_WINDOW: usize = 1024;

/// Options of a [`Pool`].
#[derive(Clone, Debug)]
#[must_use]
pub struct PoolOptions {
    sandboxes: Sandboxes,
    spec: Spec,
    size: usize,
    memory: u64,
    idle: Duration,
}

impl PoolOptions {
    /// Sets the number of sandboxes that the pool keeps ready; the default is 5.
    pub fn size(mut self, size: usize) -> Self {
        self.size = size;
        self
    }

    /// Limits the total memory, in bytes, of all sandboxes that are ready or in use; the default is 8 GiB. The limit
    /// includes the back end's overhead, and the snapshot from which sandboxes start counts as one more sandbox.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }

    /// Limits the number of sandboxes that are ready or in use. Replaces the limit set by [`memory`](Self::memory).
    pub fn max_sandboxes(mut self, sandboxes: usize) -> Self {
        let snapshot = u64::from(self.sandboxes.report().has(Guarantee::Snapshot));
        let slots = (sandboxes as u64).saturating_add(snapshot);
        self.memory = slots.saturating_mul(self.sandboxes.footprint(&self.spec).max(1));
        self
    }

    /// Sets the time without acquisitions after which the pool keeps no sandboxes ready; the default is five minutes.
    pub fn idle(mut self, idle: Duration) -> Self {
        self.idle = idle;
        self
    }

    /// Opens the pool and starts to fill it in the background.
    pub fn open(self) -> Pool {
        let max_sandboxes = (self.memory / self.sandboxes.footprint(&self.spec).max(1)).max(1);
        let max_sandboxes =
            usize::try_from(max_sandboxes).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        let shared = Arc::new_cyclic(|this| Shared {
            this: this.clone(),
            options: self,
            capacity: Arc::new(Semaphore::new(max_sandboxes)),
            ready: Mutex::default(),
            refill: Notify::new(),
            added: Notify::new(),
            stats: Mutex::default(),
            templates: Templates::default(),
        });
        let (open, closed) = oneshot::channel();
        tokio::spawn(fill_until_closed(shared.clone(), closed));
        Pool { shared, open: Arc::new(open) }
    }
}

/// A pool of sandboxes that are ready for use. Cheap to clone; dropping the last clone removes the ready sandboxes.
///
/// Each sandbox is used once and then removed, so that nothing left behind by one user can reach the next. A sandbox's
/// lifetime and idle time start when it is acquired. If no sandbox is acquired for a while, the pool shrinks to zero.
/// If the back end supports snapshots, all sandboxes but the first start from a snapshot, which is taken of the first
/// sandbox before it is used.
///
/// ```
/// use sandbox_vm::{Pool, Program, Spec};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use sandbox_vm::{Isolation, backend::InProcess, guest::Agent};
/// # let dir = tempfile::tempdir()?;
/// # let sandboxes = sandbox_vm::Sandboxes::builder().backend(InProcess::new(Agent::new)).isolation(Isolation::Off);
/// # let sandboxes = sandboxes.state_dir(dir.path()).open().await?;
/// let pool = Pool::of(sandboxes, Spec::new("code")).size(3).open();
/// let sandbox = pool.acquire().await?;
/// let output = sandbox.exec(Program::new("echo").arg("hello")).await?;
/// assert_eq!(output.stdout, b"hello\n");
/// println!("{:?} after {:?}", output.status, pool.metrics().p95);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Pool {
    shared: Arc<Shared>,
    #[expect(dead_code, reason = "held for its Drop, which stops the task that fills the pool")]
    open: Arc<oneshot::Sender<()>>,
}

struct Shared {
    this: Weak<Self>,
    options: PoolOptions,
    /// One permit for each sandbox that fits into the memory limit.
    capacity: Arc<Semaphore>,
    // These are std mutexes because they are held only briefly and never across an await.
    ready: Mutex<VecDeque<OwnedSandbox>>,
    /// Wakes the task that fills the pool.
    refill: Notify,
    /// Wakes callers that are waiting for a sandbox.
    added: Notify,
    stats: Mutex<Stats>,
    /// Holds the snapshot from which all sandboxes but the first start.
    templates: Templates,
}

/// A sandbox of the pool, either ready or acquired. Dropping this value removes the sandbox.
struct OwnedSandbox {
    sandbox: Sandbox,
    /// Released after the sandbox has been removed.
    permit: Option<OwnedSemaphorePermit>,
    pool: Weak<Shared>,
}

#[derive(Debug)]
struct Stats {
    warm: u64,
    cold: u64,
    times: VecDeque<Duration>,
    last_acquire: Instant,
}

impl Default for Stats {
    fn default() -> Self {
        Self { warm: 0, cold: 0, times: VecDeque::new(), last_acquire: Instant::now() }
    }
}

/// Metrics of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolMetrics {
    /// Number of sandboxes that are currently ready.
    pub ready: usize,
    /// Number of acquisitions that found a ready sandbox.
    pub warm: u64,
    /// Number of acquisitions that had to wait for a sandbox.
    pub cold: u64,
    /// Median duration of the most recent acquisitions.
    pub p50: Duration,
    /// 95th percentile of the duration of the most recent acquisitions.
    pub p95: Duration,
}

impl Pool {
    /// Returns options for a pool of sandboxes with this spec. The name of each sandbox starts with the spec's name.
    pub fn of(sandboxes: Sandboxes, spec: Spec) -> PoolOptions {
        PoolOptions { sandboxes, spec, size: 5, memory: 8 << 30, idle: Duration::from_secs(300) }
    }

    /// Takes a ready sandbox, or creates one if none is ready. Waits while the pool's memory is exhausted.
    pub async fn acquire(&self) -> Result<PooledSandbox, Error> {
        let started = Instant::now();
        self.shared.stats().last_acquire = started;
        let (owned, was_ready) = match self.shared.take_ready() {
            Some(owned) => (owned, true),
            None => self.shared.wait_or_create().await?,
        };
        self.shared.refill.notify_one();
        self.shared.record_acquisition(started.elapsed(), was_ready);
        owned.sandbox.restart_expiry();
        Ok(PooledSandbox { owned })
    }

    /// Returns the pool's metrics.
    pub fn metrics(&self) -> PoolMetrics {
        let ready = self.shared.ready().len();
        let stats = self.shared.stats();
        let mut times: Vec<_> = stats.times.iter().copied().collect();
        times.sort_unstable();
        let percentile = |share: usize| {
            times.get((times.len() * share / 100).min(times.len().saturating_sub(1)))
        };
        PoolMetrics {
            ready,
            warm: stats.warm,
            cold: stats.cold,
            p50: percentile(50).copied().unwrap_or_default(),
            p95: percentile(95).copied().unwrap_or_default(),
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("metrics", &self.metrics()).finish_non_exhaustive()
    }
}

/// A sandbox acquired from a pool. Dropping this value removes the sandbox.
pub struct PooledSandbox {
    owned: OwnedSandbox,
}

impl Deref for PooledSandbox {
    type Target = Sandbox;

    fn deref(&self) -> &Sandbox {
        &self.owned.sandbox
    }
}

impl fmt::Debug for PooledSandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.deref().fmt(f)
    }
}

impl Drop for OwnedSandbox {
    fn drop(&mut self) {
        let (sandbox, permit, pool) = (self.sandbox.clone(), self.permit.take(), self.pool.clone());
        // If there is no runtime, this process is about to exit, and the guest exits with it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                sandbox.delete().await;
                drop(permit);
                if let Some(pool) = pool.upgrade() {
                    pool.refill.notify_one();
                }
            });
        }
    }
}

impl Shared {
    /// Takes a ready sandbox that is still alive.
    fn take_ready(&self) -> Option<OwnedSandbox> {
        loop {
            let owned = self.ready().pop_front()?;
            if owned.sandbox.termination_reason().is_none() {
                return Some(owned);
            }
        }
    }

    /// Waits until a sandbox becomes ready or there is capacity to create one, whichever happens first.
    async fn wait_or_create(&self) -> Result<(OwnedSandbox, bool), Error> {
        loop {
            let added = self.added.notified();
            if let Some(owned) = self.take_ready() {
                return Ok((owned, false));
            }
            tokio::select! {
                biased;
                permit = self.capacity.clone().acquire_owned() => {
                    let permit = permit.expect("the pool never closes its semaphore");
                    return Ok((self.create(permit).await?, false));
                }
                () = added => {}
            }
        }
    }

    async fn create(&self, permit: OwnedSemaphorePermit) -> Result<OwnedSandbox, Error> {
        let mut spec = self.options.spec.clone();
        // The name is unique, so that no other pool and no caller of `create_if_not_exists` gets this sandbox.
        spec.name = format!("{}-{}", spec.name, CheckpointId::next());
        let restored = match self.templates.get() {
            Some(template) => self.restore(spec.clone(), &template).await,
            None => None,
        };
        let sandbox = match restored {
            Some(sandbox) => sandbox,
            None => self.options.sandboxes.create_if_not_exists(spec).await?,
        };
        sandbox.stop_expiry();
        let owned = OwnedSandbox { sandbox, permit: Some(permit), pool: self.this.clone() };
        if self.options.sandboxes.report().has(Guarantee::Snapshot) {
            self.templates
                .create_if_absent(&self.options.sandboxes, &owned.sandbox, &self.capacity)
                .await;
        }
        Ok(owned)
    }

    /// Starts a sandbox from the template. If that fails, disables the template and returns `None`.
    async fn restore(&self, spec: Spec, template: &Template) -> Option<Sandbox> {
        let restored = self.options.sandboxes.restore(spec, template.snapshot()).await;
        let restored = restored.inspect_err(|error| {
                        tracing::warn!(%error, "cannot restore the pool's snapshot; starting sandboxes without it");
            self.templates.disable();
        });
        restored.ok()
    }

    fn record_acquisition(&self, took: Duration, was_ready: bool) {
        let mut stats = self.stats();
        if was_ready {
            stats.warm += 1;
        } else {
            stats.cold += 1;
        }
        stats.times.push_back(took);
        if stats.times.len() > METRICS_WINDOW {
            stats.times.pop_front();
        }
        tracing::debug!(
            micros = took.as_micros() as u64,
            was_ready,
            "acquired a sandbox from the pool"
        );
    }

    fn ready(&self) -> MutexGuard<'_, VecDeque<OwnedSandbox>> {
        lock(&self.ready)
    }

    fn stats(&self) -> MutexGuard<'_, Stats> {
        lock(&self.stats)
    }

    /// Drops all ready sandboxes. Also drops the snapshot, because it takes as much memory as a sandbox.
    fn clear(&self) {
        self.ready().clear();
        self.templates.clear();
    }

    fn drop_terminated(&self) {
        self.ready().retain(|it| it.sandbox.termination_reason().is_none());
    }

    /// Returns the time left until the pool counts as idle.
    fn until_idle(&self) -> Duration {
        self.options.idle.saturating_sub(self.stats().last_acquire.elapsed())
    }
}

/// Keeps the pool filled until its last clone is dropped, then drops the ready sandboxes. Acquired sandboxes are not
/// affected.
async fn fill_until_closed(shared: Arc<Shared>, closed: oneshot::Receiver<()>) {
    tokio::select! {
        () = fill(&shared) => {}
        _ = closed => {}
    }
}

/// Keeps the pool full while it is in use, and empty while it is idle.
async fn fill(shared: &Shared) {
    loop {
        if shared.until_idle().is_zero() {
            shared.clear();
            shared.refill.notified().await;
            continue;
        }
        shared.drop_terminated();
        if shared.ready().len() < shared.options.size
            && let Ok(permit) = shared.capacity.clone().try_acquire_owned()
        {
            match shared.create(permit).await {
                Ok(owned) => {
                    shared.ready().push_back(owned);
                    shared.added.notify_one();
                    continue;
                }
                Err(error) => tracing::warn!(%error, "cannot create a sandbox for the pool"),
            }
        }
        let _ = tokio::time::timeout(
            shared.until_idle().min(HEALTH_CHECK_INTERVAL),
            shared.refill.notified(),
        )
        .await;
    }
}

/// Interval at which the pool checks whether ready sandboxes have terminated.
const HEALTH_CHECK_INTERVAL: Duration = Duration::from_secs(5);
