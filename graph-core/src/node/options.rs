//! Node options: retries, timeouts, caching, error handlers and deferral.

use std::{fmt, sync::Arc, time::Duration};

use serde_json::{Map, Value};

use crate::{error::NodeError, node::erased::NodeBody};

/// When and how often a failed node is retried.
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
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
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
    #[must_use]
    pub fn backoff(mut self, initial_interval: Duration, factor: f64) -> Self {
        self.initial_interval = initial_interval;
        self.backoff_factor = factor;
        self
    }

    /// Sets the maximum delay between attempts, not counting jitter.
    #[must_use]
    pub fn max_interval(mut self, max_interval: Duration) -> Self {
        self.max_interval = max_interval;
        self
    }

    /// Disables jitter.
    #[must_use]
    pub fn without_jitter(mut self) -> Self {
        self.jitter = false;
        self
    }

    /// Retries only after errors for which `retry_on` returns `true`.
    #[must_use]
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

/// How long the result of a node is cached for equal inputs.
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

/// The options of one node.
#[derive(Clone, Default)]
pub(crate) struct NodeOptions {
    pub(crate) retries: Vec<RetryPolicy>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) cache: Option<CachePolicy>,
    pub(crate) defer: bool,
    pub(crate) metadata: Map<String, Value>,
    pub(crate) writes: Option<Vec<String>>,
    pub(crate) handler: Option<NodeBody>,
    /// Whether the node has a retry policy, an error handler, a cache or a restricted view of the state. Its routers are
    /// then called as part of the task. Set when the graph is compiled.
    pub(crate) routes_in_task: bool,
}

impl fmt::Debug for NodeOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeOptions")
            .field("retries", &self.retries)
            .field("timeout", &self.timeout)
            .field("idle_timeout", &self.idle_timeout)
            .field("cache", &self.cache)
            .field("defer", &self.defer)
            .field("metadata", &self.metadata)
            .field("writes", &self.writes)
            .field("handler", &self.handler.is_some())
            .finish()
    }
}

/// A node function with options. Returned by the methods of [`NodeExt`].
#[derive(Clone, Debug)]
pub struct ConfiguredNode<F, H = NoHandler> {
    pub(crate) node: F,
    pub(crate) options: NodeOptions,
    pub(crate) handler: H,
}

/// Marker type for a node without an error handler.
#[derive(Clone, Copy, Debug)]
pub struct NoHandler;

impl<F, H> ConfiguredNode<F, H> {
    /// Retries the node after a failure. If several policies are set, the first one that applies to the error is used.
    #[must_use]
    pub fn retry(mut self, retry: impl Into<RetryPolicy>) -> Self {
        self.options.retries.push(retry.into());
        self
    }

    /// Fails an attempt that takes longer than `limit`.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.options.timeout = Some(limit);
        self
    }

    /// Fails an attempt that makes no progress for longer than `limit`. Effects, emitted events and
    /// [`Context::heartbeat`](crate::Context::heartbeat) count as progress.
    #[must_use]
    pub fn idle_timeout(mut self, limit: Duration) -> Self {
        self.options.idle_timeout = Some(limit);
        self
    }

    /// Caches the node's results by input. Has no effect unless the graph has a cache.
    #[must_use]
    pub fn cache(mut self, policy: CachePolicy) -> Self {
        self.options.cache = Some(policy);
        self
    }

    /// Defers the node until no other node is scheduled.
    #[must_use]
    pub fn defer(mut self) -> Self {
        self.options.defer = true;
        self
    }

    /// Attaches metadata to the node. The metadata appears in drawings.
    #[must_use]
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.options.metadata.insert(key.into(), value.into());
        self
    }

    /// Declares the fields that the node writes, so that `compile` can detect conflicts between concurrent nodes.
    #[must_use]
    pub fn writes<N: Into<String>>(mut self, fields: impl IntoIterator<Item = N>) -> Self {
        self.options.writes = Some(fields.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the error handler, a node that runs on the same input after this node has failed and its retries are
    /// exhausted.
    ///
    /// The handler's output replaces the output of the node. The node's own edges are not followed, so the handler must
    /// return a [`Command`](crate::Command) to continue with another node. In the handler,
    /// [`Context::failure`](crate::Context::failure) returns the error. The handler cannot have options, but the node's
    /// timeouts apply to it.
    pub fn on_error<H2>(self, handler: H2) -> ConfiguredNode<F, H2> {
        ConfiguredNode { node: self.node, options: self.options, handler }
    }
}

macro_rules! forward {
    ($($(#[$doc:meta])* fn $name:ident$(<$generic:ident: $bound:path>)?($($arg:ident: $type:ty),*);)*) => {
        /// Extension methods that set the options of a node: `.node(fetch.retry(3).timeout(limit))`.
        pub trait NodeExt: Sized {
            $($(#[$doc])* fn $name$(<$generic: $bound>)?(self, $($arg: $type),*) -> ConfiguredNode<Self> {
                ConfiguredNode { node: self, options: NodeOptions::default(), handler: NoHandler }
                    .$name($($arg),*)
            })*

            /// See [`ConfiguredNode::on_error`].
            fn on_error<H>(self, handler: H) -> ConfiguredNode<Self, H> {
                ConfiguredNode { node: self, options: NodeOptions::default(), handler }
            }
        }
    };
}

forward! {
    /// See [`ConfiguredNode::retry`].
    fn retry(retry: impl Into<RetryPolicy>);
    /// See [`ConfiguredNode::timeout`].
    fn timeout(limit: Duration);
    /// See [`ConfiguredNode::idle_timeout`].
    fn idle_timeout(limit: Duration);
    /// See [`ConfiguredNode::cache`].
    fn cache(policy: CachePolicy);
    /// See [`ConfiguredNode::defer`].
    fn defer();
    /// See [`ConfiguredNode::metadata`].
    fn metadata(key: impl Into<String>, value: impl Into<Value>);
    /// See [`ConfiguredNode::writes`].
    fn writes<N: Into<String>>(fields: impl IntoIterator<Item = N>);
}

impl<F: 'static> NodeExt for F {}
