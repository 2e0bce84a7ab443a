//! The builder: nodes, edges, branches, and what the whole graph uses.

use std::{fmt, marker::PhantomData, sync::Arc, time::Duration};

use super::{Router, Stops};
use crate::{
    BuildError, CompiledGraph, Problem, State,
    cache::Cache,
    checkpoint::Checkpointer,
    json::JsonBranch,
    json::JsonState,
    label::{END_NAME, Label, START_NAME, Source, Sources, Target},
    node::{
        Private,
        options::{IntoNode, NodeParts, Retry},
    },
    router::IntoRouter,
    state::{
        erased::{ErasedState, Live},
        migrate::Migrations,
    },
    store::Store,
};

/// The largest value that is stored unless a graph says otherwise.
const MAX_STORED_BYTES: usize = 256 << 20;

/// A graph in the making: nodes, edges, and the state of type `S` they share.
///
/// `C` is the type of the user's dependencies, which nodes find in their [`Context`](crate::Context).
///
/// ```
/// use graph_core::{END, START, State, StateGraph};
///
/// #[derive(State, Clone, Debug, Default)]
/// struct Essay {
///     topic: String,
///     #[reduce(append)]
///     drafts: Vec<String>,
/// }
///
/// async fn write(essay: &Essay) -> EssayUpdate {
///     Essay::update().drafts([format!("On {}", essay.topic)])
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph = StateGraph::<Essay>::new().node(write).edge(START, write).edge(write, END).compile()?;
/// let essay = graph.run(Essay { topic: "rust".into(), ..Default::default() }, ()).await?;
/// assert_eq!(essay.drafts, ["On rust"]);
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct StateGraph<S: State, C = ()> {
    pub(super) name: String,
    pub(super) initial: Box<dyn ErasedState>,
    pub(super) nodes: Vec<NodeParts>,
    pub(super) edges: Vec<(Label, Label)>,
    pub(super) joins: Vec<(Vec<Label>, Label)>,
    pub(super) branches: Vec<(Label, Router)>,
    pub(super) stop_before: Stops,
    pub(super) stop_after: Stops,
    pub(super) checkpointer: Option<Arc<dyn Checkpointer>>,
    pub(super) store: Option<Arc<dyn Store>>,
    pub(super) cache: Option<Arc<dyn Cache>>,
    pub(super) step_timeout: Option<Duration>,
    pub(super) max_stored_bytes: usize,
    pub(super) default_retry: Option<Retry>,
    pub(super) default_timeout: Option<Duration>,
    pub(super) migrations: Migrations,
    types: PhantomData<fn(S, C)>,
}

impl<S: State + Default, C: Send + Sync + 'static> StateGraph<S, C> {
    /// An empty graph whose state starts as `S::default()`.
    pub fn new() -> Self {
        Self::from_initial(S::default())
    }
}

impl<S: State + Default, C: Send + Sync + 'static> Default for StateGraph<S, C> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: State, C: Send + Sync + 'static> StateGraph<S, C> {
    /// An empty graph whose state starts as this value.
    pub fn from_initial(initial: S) -> Self {
        Self {
            name: "graph".to_owned(),
            initial: Box::new(Live(Arc::new(initial))),
            nodes: Vec::new(),
            edges: Vec::new(),
            joins: Vec::new(),
            branches: Vec::new(),
            stop_before: Stops::Nowhere,
            stop_after: Stops::Nowhere,
            checkpointer: None,
            store: None,
            cache: None,
            step_timeout: None,
            max_stored_bytes: MAX_STORED_BYTES,
            default_retry: None,
            default_timeout: None,
            migrations: Migrations::new(),
            types: PhantomData,
        }
    }

    /// Names the graph, for errors and drawings.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Adds a node under its function's name.
    pub fn node<M>(mut self, node: impl IntoNode<S, C, M>) -> Self {
        self.nodes.push(node.into_node(Private(())));
        self
    }

    /// Adds a node under a name: for closures, and for functions of one name.
    pub fn node_as<M>(mut self, name: impl Into<Label>, node: impl IntoNode<S, C, M>) -> Self {
        let mut parts = node.into_node(Private(()));
        parts.label = Some(name.into());
        self.nodes.push(parts);
        self
    }

    /// Runs `to` in the step after `from`.
    pub fn edge<M1, M2>(mut self, from: impl Source<S, C, M1>, to: impl Target<S, C, M2>) -> Self {
        self.edges.push((from.source(), to.target()));
        self
    }

    /// Runs `to` once all of the sources have run since it ran last.
    pub fn join<M1, M2>(mut self, from: impl Sources<S, C, M1>, to: impl Target<S, C, M2>) -> Self {
        self.joins.push((from.sources(), to.target()));
        self
    }

    /// Runs nodes one after the other, entered from START and left to END.
    pub fn sequence<M>(self, nodes: impl Sources<S, C, M>) -> Self {
        let names = nodes.sources();
        let mut path = vec![Label::from(START_NAME)];
        path.extend(names);
        path.push(Label::from(END_NAME));
        let edges = path.windows(2).map(|pair| (pair[0].clone(), pair[1].clone()));
        let mut graph = self;
        graph.edges.extend(edges);
        graph
    }

    /// Asks `route` where to go after `from`.
    ///
    /// It sees the state with `from`'s own writes, but not those of nodes that ran beside it.
    pub fn branch<M1, M2>(
        mut self,
        from: impl Source<S, C, M1>,
        route: impl IntoRouter<S, C, M2>,
    ) -> Self {
        self.branches.push((from.source(), route.into_router(Private(()))));
        self
    }

    /// Keeps threads in this checkpointer.
    pub fn checkpointer(mut self, checkpointer: impl Checkpointer + 'static) -> Self {
        self.checkpointer = Some(Arc::new(checkpointer));
        self
    }

    /// Like [`checkpointer`](Self::checkpointer), for one that is shared or chosen at run time.
    pub fn shared_checkpointer(mut self, checkpointer: Arc<dyn Checkpointer>) -> Self {
        self.checkpointer = Some(checkpointer);
        self
    }

    /// Gives nodes a long-term store.
    pub fn store(mut self, store: impl Store + 'static) -> Self {
        self.store = Some(Arc::new(store));
        self
    }

    /// Gives nodes that ask for it a cache.
    pub fn cache(mut self, cache: impl Cache + 'static) -> Self {
        self.cache = Some(Arc::new(cache));
        self
    }

    /// Stops a run before these nodes.
    pub fn stop_before(mut self, stops: Stops) -> Self {
        self.stop_before = stops;
        self
    }

    /// Stops a run after these nodes.
    pub fn stop_after(mut self, stops: Stops) -> Self {
        self.stop_after = stops;
        self
    }

    /// Fails a run one of whose steps takes longer.
    pub fn step_timeout(mut self, limit: Duration) -> Self {
        self.step_timeout = Some(limit);
        self
    }

    /// Fails a task that writes a larger value than this where it would have to be stored; 256 MiB unless it is said.
    pub fn max_stored_bytes(mut self, bytes: usize) -> Self {
        self.max_stored_bytes = bytes;
        self
    }

    /// Retries for nodes that have no policy of their own.
    pub fn default_retry(mut self, retry: impl Into<Retry>) -> Self {
        self.default_retry = Some(retry.into());
        self
    }

    /// A time-out for nodes that have none of their own.
    pub fn default_timeout(mut self, limit: Duration) -> Self {
        self.default_timeout = Some(limit);
        self
    }

    /// Brings stored threads of older versions of the state to the present one.
    pub fn migrations(mut self, migrations: Migrations) -> Self {
        self.migrations = migrations;
        self
    }

    /// Checks the graph and closes it.
    ///
    /// The error lists all that is wrong at once; what only looks wrong is in [`CompiledGraph::warnings`].
    pub fn compile(self) -> Result<CompiledGraph<S, C>, BuildError> {
        let graph = super::validate::compile(self)?;
        Ok(CompiledGraph::new(Arc::new(graph)))
    }
}

impl<C: Send + Sync + 'static> StateGraph<JsonState, C> {
    /// Adds a conditional edge of a dynamic graph.
    pub fn json_branch<M>(
        mut self,
        from: impl Source<JsonState, C, M>,
        branch: JsonBranch,
    ) -> Self {
        self.branches.push((from.source(), branch.into_router()));
        self
    }
}

impl<S: State, C> fmt::Debug for StateGraph<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateGraph")
            .field("name", &self.name)
            .field("nodes", &self.nodes)
            .field("edges", &self.edges)
            .field("joins", &self.joins)
            .field("branches", &self.branches)
            .finish_non_exhaustive()
    }
}

/// Adds a problem unless it is known already.
pub(super) fn note(problems: &mut Vec<Problem>, problem: Problem) {
    if !problems.contains(&problem) {
        problems.push(problem);
    }
}
