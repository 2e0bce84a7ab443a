//! What can be said of a node besides its function: retries, time-outs, cache, handler, deferral.

use std::{fmt, sync::Arc, time::Duration};

use serde_json::{Map, Value};

use super::{Node, NodeBody, Private};
use crate::{NodeError, State, command::RouteTarget, label::Label};

/// When and how often a failed node is tried again.
#[derive(Clone)]
pub struct Retry {
    pub(crate) attempts: u32,
    initial: Duration,
    factor: f64,
    longest: Duration,
    jitter: bool,
    when: Arc<dyn Fn(&NodeError) -> bool + Send + Sync>,
}

impl Retry {
    /// So many attempts in all, waiting half a second, then twice as long each time, with jitter.
    ///
    /// Failures marked terminal are not tried again.
    pub fn attempts(attempts: u32) -> Self {
        Self {
            attempts,
            initial: Duration::from_millis(500),
            factor: 2.0,
            longest: Duration::from_secs(128),
            jitter: true,
            when: Arc::new(|_| true),
        }
    }

    /// Waits so long before the second attempt, and `factor` times as long before each further one.
    #[must_use]
    pub fn backoff(mut self, initial: Duration, factor: f64) -> Self {
        self.initial = initial;
        self.factor = factor;
        self
    }

    /// Never waits longer than this, the jitter of up to a second not counted.
    #[must_use]
    pub fn at_most(mut self, longest: Duration) -> Self {
        self.longest = longest;
        self
    }

    /// Waits exactly as long as computed, not up to a second more.
    #[must_use]
    pub fn without_jitter(mut self) -> Self {
        self.jitter = false;
        self
    }

    /// Tries again only after such errors.
    #[must_use]
    pub fn when(mut self, when: impl Fn(&NodeError) -> bool + Send + Sync + 'static) -> Self {
        self.when = Arc::new(when);
        self
    }

    pub(crate) fn applies(&self, error: &NodeError) -> bool {
        !error.is_terminal() && (self.when)(error)
    }

    /// How long to wait after so many failed attempts.
    pub(crate) fn delay(&self, failed: u32) -> Duration {
        let factor = self.factor.powi(i32::try_from(failed.saturating_sub(1)).unwrap_or(i32::MAX));
        let exact = self.initial.as_secs_f64() * factor;
        let exact = exact.min(self.longest.as_secs_f64()).max(0.0);
        let jitter = if self.jitter { crate::random::fraction() } else { 0.0 };
        Duration::try_from_secs_f64(exact + jitter).unwrap_or(self.longest)
    }
}

impl From<u32> for Retry {
    fn from(attempts: u32) -> Self {
        Self::attempts(attempts)
    }
}

impl fmt::Debug for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retry")
            .field("attempts", &self.attempts)
            .field("initial", &self.initial)
            .field("factor", &self.factor)
            .field("longest", &self.longest)
            .field("jitter", &self.jitter)
            .finish_non_exhaustive()
    }
}

/// How long a finished task's result may stand in for running its node again on an equal input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CachePolicy {
    pub(crate) ttl: Option<Duration>,
}

impl CachePolicy {
    /// For ever.
    pub fn new() -> Self {
        Self::default()
    }

    /// So long.
    pub fn ttl(ttl: Duration) -> Self {
        Self { ttl: Some(ttl) }
    }
}

/// The options of one node.
#[derive(Clone, Default)]
pub(crate) struct NodeOptions {
    pub(crate) retries: Vec<Retry>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) cache: Option<CachePolicy>,
    pub(crate) defer: bool,
    pub(crate) metadata: Map<String, Value>,
    pub(crate) writes: Option<Vec<String>>,
    pub(crate) handler: Option<NodeBody>,
    /// Whether there is more to running the node than calling it: set when the graph is compiled.
    pub(crate) needs_care: bool,
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

/// A node function with options: what the methods of [`Configure`] return.
#[derive(Clone, Debug)]
pub struct Configured<F, H = NoHandler> {
    node: F,
    options: NodeOptions,
    handler: H,
}

/// The place of an error handler that is not there.
#[derive(Clone, Copy, Debug)]
pub struct NoHandler;

impl<F, H> Configured<F, H> {
    /// Tries again after a failure; given several times, the first policy that fits the error counts.
    #[must_use]
    pub fn retry(mut self, retry: impl Into<Retry>) -> Self {
        self.options.retries.push(retry.into());
        self
    }

    /// Fails an attempt that takes longer.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.options.timeout = Some(limit);
        self
    }

    /// Fails an attempt that gives no sign of life for so long: see [`Context::heartbeat`](crate::Context::heartbeat).
    #[must_use]
    pub fn idle_timeout(mut self, limit: Duration) -> Self {
        self.options.idle_timeout = Some(limit);
        self
    }

    /// Keeps results and takes them again for equal inputs, where the graph has a cache.
    #[must_use]
    pub fn cache(mut self, policy: CachePolicy) -> Self {
        self.options.cache = Some(policy);
        self
    }

    /// Holds the node back until nothing else would run.
    #[must_use]
    pub fn defer(mut self) -> Self {
        self.options.defer = true;
        self
    }

    /// Notes something about the node, for drawings and for whoever reads the graph.
    #[must_use]
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.options.metadata.insert(key.into(), value.into());
        self
    }

    /// Declares which fields the node writes, so that `compile` can see conflicts of nodes that run side by side.
    #[must_use]
    pub fn writes<N: Into<String>>(mut self, fields: impl IntoIterator<Item = N>) -> Self {
        self.options.writes = Some(fields.into_iter().map(Into::into).collect());
        self
    }

    /// Runs another node, on the same input, once this one has failed for good.
    ///
    /// The handler's answer takes the place of the node's; the node's own edges do not fire, so a handler
    /// that wants to go on returns a [`Command`](crate::Command).
    /// It finds the error in [`Context::failure`](crate::Context::failure). It has no options of its own; the node's
    /// time limits hold for it too.
    pub fn on_error<H2>(self, handler: H2) -> Configured<F, H2> {
        Configured { node: self.node, options: self.options, handler }
    }
}

macro_rules! forward {
    ($($(#[$doc:meta])* fn $name:ident$(<$generic:ident: $bound:path>)?($($arg:ident: $type:ty),*);)*) => {
        /// Options of a node, said behind its function: `.node(fetch.retry(3).timeout(limit))`.
        pub trait Configure: Sized {
            $($(#[$doc])* fn $name$(<$generic: $bound>)?(self, $($arg: $type),*) -> Configured<Self> {
                Configured { node: self, options: NodeOptions::default(), handler: NoHandler }
                    .$name($($arg),*)
            })*

            /// See [`Configured::on_error`].
            fn on_error<H>(self, handler: H) -> Configured<Self, H> {
                Configured { node: self, options: NodeOptions::default(), handler }
            }
        }
    };
}

forward! {
    /// See [`Configured::retry`].
    fn retry(retry: impl Into<Retry>);
    /// See [`Configured::timeout`].
    fn timeout(limit: Duration);
    /// See [`Configured::idle_timeout`].
    fn idle_timeout(limit: Duration);
    /// See [`Configured::cache`].
    fn cache(policy: CachePolicy);
    /// See [`Configured::defer`].
    fn defer();
    /// See [`Configured::metadata`].
    fn metadata(key: impl Into<String>, value: impl Into<Value>);
    /// See [`Configured::writes`].
    fn writes<N: Into<String>>(fields: impl IntoIterator<Item = N>);
}

impl<F: 'static> Configure for F {}

/// A node as it is added to a graph: a function, or a function with options.
///
/// `M` only tells the compiler which of these it is.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a node of a graph over `{S}`",
    label = "not an async function of a form that a node can have",
    note = "a node takes `&{S}` or a payload (`Clone + Serialize + DeserializeOwned`), then optionally `&Context<{C}>`",
    note = "it returns the update of `{S}`, a `Command<{S}, _>`, `()`, or a `Result` of these, and its future is `Send`"
)]
pub trait IntoNode<S: State, C, M> {
    #[doc(hidden)]
    fn into_node(self, _: Private) -> NodeParts;
}

/// What a node is made of.
#[doc(hidden)]
#[derive(Debug)]
pub struct NodeParts {
    pub(crate) label: Option<Label>,
    pub(crate) node: NodeBody,
    pub(crate) targets: Option<Vec<RouteTarget>>,
    pub(crate) options: NodeOptions,
}

#[doc(hidden)]
#[derive(Debug)]
pub struct Bare<M>(std::marker::PhantomData<M>);

#[diagnostic::do_not_recommend]
impl<F, S, C, M> IntoNode<S, C, Bare<M>> for F
where
    F: Node<S, C, M>,
    S: State,
{
    fn into_node(self, private: Private) -> NodeParts {
        NodeParts {
            label: Label::of_fn::<F>(),
            targets: F::targets(),
            node: self.erase(private),
            options: NodeOptions::default(),
        }
    }
}

#[diagnostic::do_not_recommend]
impl<F, H, S, C, M, MH> IntoNode<S, C, (M, MH)> for Configured<F, H>
where
    F: IntoNode<S, C, M>,
    H: Handler<S, C, MH>,
    S: State,
{
    fn into_node(self, _: Private) -> NodeParts {
        let mut parts = self.node.into_node(Private(()));
        let handler = self.handler.into_handler(Private(()));
        // The handler's routes lead out of the node as much as the node's own do.
        parts.targets = match (&handler, parts.targets) {
            (None, targets) => targets,
            (Some(handler), targets) => targets.zip(handler.targets.clone()).map(|(mut a, b)| {
                a.extend(b);
                a
            }),
        };
        parts.options = self.options;
        parts.options.handler = handler.map(|it| it.node);
        parts
    }
}

/// An error handler: a node, or none.
///
/// `M` only tells the compiler which of these it is.
pub trait Handler<S: State, C, M> {
    #[doc(hidden)]
    fn into_handler(self, _: Private) -> Option<NodeParts>;
}

#[doc(hidden)]
#[derive(Debug)]
pub struct Without;

impl<S: State, C> Handler<S, C, Without> for NoHandler {
    fn into_handler(self, _: Private) -> Option<NodeParts> {
        None
    }
}

#[diagnostic::do_not_recommend]
impl<H, S, C, M> Handler<S, C, Bare<M>> for H
where
    H: Node<S, C, M>,
    S: State,
{
    fn into_handler(self, private: Private) -> Option<NodeParts> {
        Some(self.into_node(private))
    }
}
