//! A pool of sandboxes that are ready to be used, each once.

mod template;

use std::{
    collections::VecDeque,
    fmt,
    ops::Deref,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use graph_core::checkpoint::CheckpointId;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};

use self::template::{Template, Templates};
use crate::{Error, Sandbox, Sandboxes, Spec, report::Guarantee};

/// How many acquisitions the metrics look back on.
const METRICS_WINDOW: usize = 1024;

/// What a [`Pool`] is to be.
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
    /// Keeps so many ready; 5 unless it is said.
    pub fn size(mut self, size: usize) -> Self {
        self.size = size;
        self
    }

    /// Lets all its sandboxes together, ready or in use, have so many bytes of memory; 8 GiB unless it is said. What the
    /// back end itself needs for each counts too, and a snapshot that they start from counts as one more.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }

    /// Lets there be so many sandboxes at once, ready or in use: as much memory as they need, in place of so many bytes.
    pub fn max_sandboxes(mut self, sandboxes: usize) -> Self {
        let snapshot = u64::from(self.sandboxes.can(Guarantee::Snapshot));
        let slots = (sandboxes as u64).saturating_add(snapshot);
        self.memory = slots.saturating_mul(self.sandboxes.footprint(&self.spec).max(1));
        self
    }

    /// Keeps none ready once nobody has asked for one for so long; five minutes unless it is said.
    pub fn idle(mut self, idle: Duration) -> Self {
        self.idle = idle;
        self
    }

    /// Starts to fill the pool.
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
            stats: Mutex::new(Stats { last_acquire: Instant::now(), ..Stats::default() }),
            templates: Templates::default(),
        });
        let (open, closed) = oneshot::channel();
        tokio::spawn(fill_until_closed(shared.clone(), closed));
        Pool { shared, open: Arc::new(open) }
    }
}

/// Sandboxes that are ready to be used. Cheap to clone; with the last clone those that are ready are removed.
///
/// Each is used once and then removed: nothing that one user leaves in it reaches the next. Its lifetime and its idle
/// time count from when it is taken. While nobody asks, the pool shrinks to nothing. Where the back end has snapshots,
/// all but the first start from one of the first, which was taken before anybody used it.
///
/// ```no_run
/// use sandbox_vm::{Pool, Program, Sandboxes, Spec};
///
/// # async fn example(sandboxes: Sandboxes) -> Result<(), sandbox_vm::Error> {
/// let pool = Pool::of(sandboxes, Spec::new("code")).size(3).open();
/// let sandbox = pool.acquire().await?;
/// let output = sandbox.exec(Program::new("python3").args(["-c", "print(1)"])).await?;
/// println!("{:?} after {:?}", output.status, pool.metrics().p95);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Pool {
    shared: Arc<Shared>,
    #[expect(dead_code, reason = "held for its Drop, which tells the task that serves the pool")]
    open: Arc<oneshot::Sender<()>>,
}

struct Shared {
    this: Weak<Self>,
    options: PoolOptions,
    /// One permit for each sandbox that fits into the pool's memory.
    capacity: Arc<Semaphore>,
    // Std mutexes: held for a moment, never over an await.
    ready: Mutex<VecDeque<OwnedSandbox>>,
    /// Wakes the filler.
    refill: Notify,
    /// Wakes those who wait for a sandbox.
    added: Notify,
    stats: Mutex<Stats>,
    /// What all but the first start from.
    templates: Templates,
}

/// A sandbox of the pool. Dropping it removes the sandbox.
struct OwnedSandbox {
    sandbox: Sandbox,
    /// GraphInput back once the sandbox is gone.
    capacity: Option<OwnedSemaphorePermit>,
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

/// What a pool has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolMetrics {
    /// How many are ready.
    pub ready: usize,
    /// How many acquisitions found one ready.
    pub warm: u64,
    /// How many had to wait for one to be made.
    pub cold: u64,
    /// What half of the last acquisitions took at most.
    pub p50: Duration,
    /// What 95 of 100 of them took at most.
    pub p95: Duration,
}

impl Pool {
    /// A pool of such sandboxes; the spec's name is what their names start with.
    pub fn of(sandboxes: Sandboxes, spec: Spec) -> PoolOptions {
        PoolOptions { sandboxes, spec, size: 5, memory: 8 << 30, idle: Duration::from_secs(300) }
    }

    /// Takes a sandbox that is ready, or makes one; waits where the pool's memory is used up.
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

    /// What it has done so far.
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

/// A sandbox taken from a pool. Dropping it removes the sandbox.
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
        let (sandbox, capacity, pool) =
            (self.sandbox.clone(), self.capacity.take(), self.pool.clone());
        // Without a runtime the process is about to end, and the guest with it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                sandbox.delete().await;
                drop(capacity);
                if let Some(pool) = pool.upgrade() {
                    pool.refill.notify_one();
                }
            });
        }
    }
}

impl Shared {
    /// One that is ready and has not died meanwhile.
    fn take_ready(&self) -> Option<OwnedSandbox> {
        loop {
            let owned = self.ready().pop_front()?;
            if owned.sandbox.termination_reason().is_none() {
                return Some(owned);
            }
        }
    }

    /// Waits for one that is made ready, or for capacity to make one: whichever comes first.
    async fn wait_or_create(&self) -> Result<(OwnedSandbox, bool), Error> {
        loop {
            let added = self.added.notified();
            if let Some(owned) = self.take_ready() {
                return Ok((owned, false));
            }
            tokio::select! {
                biased;
                capacity = self.capacity.clone().acquire_owned() => {
                    let capacity = capacity.expect("the pool never closes its semaphore");
                    return Ok((self.create(capacity).await?, false));
                }
                () = added => {}
            }
        }
    }

    async fn create(&self, capacity: OwnedSemaphorePermit) -> Result<OwnedSandbox, Error> {
        let mut spec = self.options.spec.clone();
        // Never given twice: another pool, or whoever else makes sandboxes here, must not be handed this one.
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
        let owned = OwnedSandbox { sandbox, capacity: Some(capacity), pool: self.this.clone() };
        if self.options.sandboxes.can(Guarantee::Snapshot) {
            self.templates
                .create_if_absent(&self.options.sandboxes, &owned.sandbox, &self.capacity)
                .await;
        }
        Ok(owned)
    }

    /// Starts a sandbox from the template. One that is of no use is not tried again.
    async fn restore(&self, spec: Spec, template: &Template) -> Option<Sandbox> {
        let restored = self.options.sandboxes.restore(spec, template.snapshot()).await;
        let restored = restored.inspect_err(|error| {
            tracing::warn!(%error, "the pool's snapshot is of no use; all start without one");
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
            "a sandbox was taken from the pool"
        );
    }

    fn ready(&self) -> MutexGuard<'_, VecDeque<OwnedSandbox>> {
        lock(&self.ready)
    }

    fn stats(&self) -> MutexGuard<'_, Stats> {
        lock(&self.stats)
    }

    /// Keeps nothing: no sandbox, and no snapshot, which takes as much memory as one.
    fn clear(&self) {
        self.ready().clear();
        self.templates.clear();
    }

    fn drop_terminated(&self) {
        self.ready().retain(|it| it.sandbox.termination_reason().is_none());
    }

    /// How long until nobody has asked for so long that none is kept ready.
    fn until_idle(&self) -> Duration {
        self.options.idle.saturating_sub(self.stats().last_acquire.elapsed())
    }
}

/// Fills the pool until nobody has it any more; then all that are ready are dropped with it. What is in use stays with
/// whoever uses it.
async fn fill_until_closed(shared: Arc<Shared>, closed: oneshot::Receiver<()>) {
    tokio::select! {
        () = fill(&shared) => {}
        _ = closed => {}
    }
}

/// Keeps the pool full while it is used, and empty while it is not.
async fn fill(shared: &Shared) {
    loop {
        if shared.until_idle().is_zero() {
            shared.clear();
            shared.refill.notified().await;
            continue;
        }
        shared.drop_terminated();
        if shared.ready().len() < shared.options.size
            && let Ok(capacity) = shared.capacity.clone().try_acquire_owned()
        {
            match shared.create(capacity).await {
                Ok(owned) => {
                    shared.ready().push_back(owned);
                    shared.added.notify_one();
                    continue;
                }
                Err(error) => tracing::warn!(%error, "the pool cannot make a sandbox"),
            }
        }
        let _ = tokio::time::timeout(
            shared.until_idle().min(HEALTH_CHECK_INTERVAL),
            shared.refill.notified(),
        )
        .await;
    }
}

/// How often the pool is looked at for sandboxes that have died.
const HEALTH_CHECK_INTERVAL: Duration = Duration::from_secs(5);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
