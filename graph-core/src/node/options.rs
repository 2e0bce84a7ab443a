//! Node options: retries, timeouts, caching, error handlers and deferral.

use std::{fmt, time::Duration};

use serde_json::{Map, Value};

use crate::{
    node::erased::NodeBody,
    policy::{CachePolicy, RetryPolicy},
};

/// The options of one node.
#[derive(Clone, Default)]
pub(crate) struct NodeOptions {
    pub(crate) retries: Vec<RetryPolicy>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) cache: Option<CachePolicy>,
    pub(crate) defer: bool,
    pub(crate) command_only: bool,
    pub(crate) metadata: Map<String, Value>,
    pub(crate) writes: Option<Vec<String>>,
    pub(crate) reads: Option<Vec<String>>,
    pub(crate) handler: Option<NodeBody>,
    pub(crate) pool: Option<String>,
    /// Whether the node has a retry policy, an error handler, a cache, a restricted view of the state or an async
    /// branch. Its routers are then called as part of the task. Set when the graph is compiled.
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
            .field("command_only", &self.command_only)
            .field("metadata", &self.metadata)
            .field("writes", &self.writes)
            .field("reads", &self.reads)
            .field("handler", &self.handler.is_some())
            .field("pool", &self.pool)
            .finish()
    }
}

/// A node function with options. Returned by the methods of [`NodeExt`].
#[derive(Clone, Debug)]
#[must_use]
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
    pub fn retry(mut self, retry: impl Into<RetryPolicy>) -> Self {
        self.options.retries.push(retry.into());
        self
    }

    /// Fails an attempt that takes longer than `limit`.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.options.timeout = Some(limit);
        self
    }

    /// Fails an attempt that makes no progress for longer than `limit`. Effects, emitted events and
    /// [`Context::heartbeat`](crate::Context::heartbeat) count as progress.
    pub fn idle_timeout(mut self, limit: Duration) -> Self {
        self.options.idle_timeout = Some(limit);
        self
    }

    /// Caches the node's results by input. Has no effect unless the graph has a cache.
    pub fn cache(mut self, policy: CachePolicy) -> Self {
        self.options.cache = Some(policy);
        self
    }

    /// Defers the node until no other node is scheduled.
    pub fn defer(mut self) -> Self {
        self.options.defer = true;
        self
    }

    /// Declares that only commands from outside of the graph lead to the node: those of a caller (see
    /// [`Input::goto`](crate::Input::goto)) or of a graph that a node runs.
    ///
    /// Without this option, `compile` fails if no edge, branch or route leads to the node.
    pub fn command_only(mut self) -> Self {
        self.options.command_only = true;
        self
    }

    /// Attaches metadata to the node. The metadata appears in drawings.
    pub fn with_metadata(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.options.metadata.insert(key.into(), value.into());
        self
    }

    /// Declares the fields that the node writes, so that `compile` can detect conflicts between concurrent nodes.
    ///
    /// In an [eager](crate::StateGraph::eager) graph, the node and its error handler fail if they write another field.
    pub fn writes<N: Into<String>>(mut self, fields: impl IntoIterator<Item = N>) -> Self {
        self.options.writes = Some(fields.into_iter().map(Into::into).collect());
        self
    }

    /// Limits the fields that the node and its branches see. Other fields have the value of the graph's initial state;
    /// step-scoped and untracked fields are cleared.
    ///
    /// In an [eager](crate::StateGraph::eager) graph, the node can start before tasks that write other fields are done.
    pub fn reads<N: Into<String>>(mut self, fields: impl IntoIterator<Item = N>) -> Self {
        self.options.reads = Some(fields.into_iter().map(Into::into).collect());
        self
    }

    /// Binds the node to a pool of workers, such as machines with a GPU. The run's task runner decides what that means:
    /// see [`RunOptions::task_runner`](crate::RunOptions::task_runner). Without a runner, the option has no effect.
    pub fn pool(mut self, pool: impl Into<String>) -> Self {
        self.options.pool = Some(pool.into());
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
        /// Extension methods that set the options of a node.
        ///
        /// ```
        /// use std::time::Duration;
        ///
        /// use graph_core::{NodeExt, START, State, StateGraph};
        ///
        /// # #[derive(State, Clone, Debug, Default)]
        /// # struct Page {
        /// #     text: String,
        /// # }
        /// # async fn fetch(_: &Page) -> PageUpdate {
        /// #     Page::update().text("found")
        /// # }
        /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
        /// let limit = Duration::from_secs(10);
        /// let graph = StateGraph::<Page>::new().node(fetch.retry(3).timeout(limit)).edge(START, fetch);
        /// # graph.compile()?;
        /// # Ok(()) }
        /// ```
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
    /// See [`ConfiguredNode::command_only`].
    fn command_only();
    /// See [`ConfiguredNode::with_metadata`].
    fn with_metadata(key: impl Into<String>, value: impl Into<Value>);
    /// See [`ConfiguredNode::pool`].
    fn pool(pool: impl Into<String>);
    /// See [`ConfiguredNode::reads`].
    fn reads<N: Into<String>>(fields: impl IntoIterator<Item = N>);
    /// See [`ConfiguredNode::writes`].
    fn writes<N: Into<String>>(fields: impl IntoIterator<Item = N>);
}

impl<F: 'static> NodeExt for F {}
