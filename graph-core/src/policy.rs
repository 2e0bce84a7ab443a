//! Policies of nodes and journaled calls: retries and caching.

use std::{fmt, sync::Arc, time::Duration};

use crate::error::NodeError;

/// When and how often a failed node or journaled call is retried.
///
/// ```
/// use std::time::Duration;
/// use graph_core::{NodeError, NodeExt, RetryPolicy, START, State, StateGraph};
///
/// #[derive(State, Clone, Debug, Default)]
/// struct Report {
///     text: String,
/// }
///
/// async fn fetch(_: &Report) -> Result<ReportUpdate, NodeError> {
///     Ok(Report::update().text("done"))
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let retry = RetryPolicy::max_attempts(5)
///     .backoff(Duration::from_millis(200), 2.0)
///     .retry_on(|error| error.to_string().contains("busy"));
/// let graph = StateGraph::<Report>::new()
///     .node(fetch.retry(retry).timeout(Duration::from_secs(30)))
///     .edge(START, fetch)
///     .compile()?;
/// # let _ = graph;
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use]
pub struct RetryPolicy {
    pub(crate) max_attempts: u32,
    initial_interval: Duration,
    backoff_factor: f64,
    max_interval: Duration,
    jitter: bool,
    retry_on: Arc<dyn Fn(&NodeError) -> bool + Send + Sync>,
}

impl RetryPolicy {
    /// Creates a policy with a maximum number of attempts, including the first one.
    ///
    /// By default, the delay before the first retry is half a second. It doubles with each further retry, up to 128
    /// seconds, plus up to a second of jitter. Terminal failures are never retried.
    pub fn max_attempts(max_attempts: u32) -> Self {
        Self {
            max_attempts,
            initial_interval: Duration::from_millis(500),
            backoff_factor: 2.0,
            max_interval: Duration::from_secs(128),
            jitter: true,
            retry_on: Arc::new(|_| true),
        }
    }

    /// Sets the delay before the first retry, and the factor by which the delay grows with each further retry.
    pub fn backoff(mut self, initial_interval: Duration, factor: f64) -> Self {
        self.initial_interval = initial_interval;
        self.backoff_factor = factor;
        self
    }

    /// Sets the maximum delay between attempts, not counting jitter.
    pub fn max_interval(mut self, max_interval: Duration) -> Self {
        self.max_interval = max_interval;
        self
    }

    /// Disables jitter.
    pub fn without_jitter(mut self) -> Self {
        self.jitter = false;
        self
    }

    /// Retries only after errors for which `retry_on` returns `true`.
    pub fn retry_on(
        mut self,
        retry_on: impl Fn(&NodeError) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.retry_on = Arc::new(retry_on);
        self
    }

    /// Returns whether the policy applies to this error.
    pub(crate) fn applies(&self, error: &NodeError) -> bool {
        !error.is_terminal() && (self.retry_on)(error)
    }

    /// Returns the delay before the next attempt, after `failed` failed attempts.
    pub(crate) fn delay(&self, failed: u32) -> Duration {
        let exponent = i32::try_from(failed.saturating_sub(1)).unwrap_or(i32::MAX);
        let exact = self.initial_interval.as_secs_f64() * self.backoff_factor.powi(exponent);
        let exact = exact.min(self.max_interval.as_secs_f64()).max(0.0);
        let jitter = if self.jitter { crate::random::fraction() } else { 0.0 };
        Duration::try_from_secs_f64(exact + jitter).unwrap_or(self.max_interval)
    }
}

impl From<u32> for RetryPolicy {
    fn from(max_attempts: u32) -> Self {
        Self::max_attempts(max_attempts)
    }
}

impl fmt::Debug for RetryPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryPolicy")
            .field("max_attempts", &self.max_attempts)
            .field("initial_interval", &self.initial_interval)
            .field("backoff_factor", &self.backoff_factor)
            .field("max_interval", &self.max_interval)
            .field("jitter", &self.jitter)
            .finish_non_exhaustive()
    }
}

/// How long the result of a node or a journaled call is cached for equal inputs. See
/// [`MemoryCache`](crate::MemoryCache) for an example.
///
/// ```
/// use std::time::Duration;
///
/// use graph_core::{CachePolicy, MemoryCache, NodeExt, START, State, StateGraph};
///
/// # #[derive(State, Clone, Debug, Default)]
/// # struct Essay { topic: String }
/// async fn write(_: &Essay) -> EssayUpdate {
///     Essay::update().topic("tea")
/// }
///
/// # fn main() -> Result<(), graph_core::BuildError> {
/// let graph = StateGraph::<Essay>::new()
///     .node(write.cache(CachePolicy::ttl(Duration::from_secs(600))))
///     .edge(START, write)
///     .cache(MemoryCache::new())
///     .compile()?;
/// # let _ = graph;
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CachePolicy {
    pub(crate) ttl: Option<Duration>,
}

impl CachePolicy {
    /// Creates a policy that caches results forever.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a policy that caches results for the given time.
    pub fn ttl(ttl: Duration) -> Self {
        Self { ttl: Some(ttl) }
    }
}

/// Options of a journaled call: see [`Context::task_with`](crate::Context::task_with).
///
/// ```
/// use std::time::Duration;
///
/// use graph_core::TaskOptions;
///
/// let options = TaskOptions::new().retry(3).timeout(Duration::from_secs(30));
/// # let _ = options;
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct TaskOptions {
    pub(crate) retry: Option<RetryPolicy>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) cache: Option<CachePolicy>,
}

impl TaskOptions {
    /// Creates the default options: one attempt, no timeout, no cache.
    pub fn new() -> Self {
        Self::default()
    }

    /// Retries the call after a failure.
    pub fn retry(mut self, retry: impl Into<RetryPolicy>) -> Self {
        self.retry = Some(retry.into());
        self
    }

    /// Fails an attempt that takes longer than `limit`.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// Caches the result by name and key, for all runs of the graph. Has no effect unless the graph has a cache.
    pub fn cache(mut self, policy: CachePolicy) -> Self {
        self.cache = Some(policy);
        self
    }
}
