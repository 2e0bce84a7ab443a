//! The graphs that the server hosts.

use std::{collections::BTreeMap, sync::Arc};

use graph_core::{
    BuildError, Checkpointer, MemorySaver, State, StateGraph,
    store::{InMemoryStore, Store},
};
use serde_json::{Map, Value};

use super::{
    any_graph::AnyGraph, executor::RunExecutor, executor_graph::ExecutorGraph, schemas::Schemas,
    typed_graph::TypedGraph,
};

/// The graphs that a server hosts, and the storage that they share.
///
/// The server compiles the graphs with its own checkpointer and store, so that it can manage their threads.
///
/// ```
/// use graph_core::{Context, START, State, StateGraph};
/// use graph_server::langgraph::{Graphs, Schemas};
/// use serde::{Deserialize, Serialize};
/// use serde_json::json;
///
/// #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
/// struct Essay {
///     topic: String,
///     text: String,
/// }
///
/// /// The dependency of the nodes.
/// struct Style(String);
///
/// async fn write(essay: &Essay, cx: &Context<Style>) -> EssayUpdate {
///     Essay::update().text(format!("A {} essay on {}", cx.deps().0, essay.topic))
/// }
///
/// let essays = StateGraph::<Essay, Style>::new().node(write).edge(START, write);
/// let schema = json!({"type": "object", "properties": {"topic": {"type": "string"}}});
/// let context = json!({"type": "object", "properties": {"adjective": {"type": "string"}}});
/// let schemas = Schemas::of_state(schema).with_context(context);
/// // Each run has its own style: `client.runs.create(.., context={"adjective": "short"})`.
/// let graphs = Graphs::in_memory().add_with_context("essays", essays, schemas, |context| {
///     let adjective = context.get("adjective").and_then(|it| it.as_str());
///     Ok(Style(adjective.ok_or("`adjective` is missing")?.to_owned()))
/// })?;
/// assert_eq!(graphs.names().collect::<Vec<_>>(), ["essays"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Graphs {
    checkpointer: Arc<dyn Checkpointer>,
    store: Arc<dyn Store>,
    graphs: BTreeMap<String, Arc<dyn AnyGraph>>,
}

/// The error returned for a graph that was not added.
#[derive(thiserror::Error)]
#[error("graph `{0}` does not exist; add it with `Graphs::add` before this call")]
pub struct UnknownGraphError(String);

graph_core::readable_debug!(UnknownGraphError);

impl Graphs {
    /// Creates an empty set of graphs that keep their threads in `checkpointer` and their long-term memory in `store`.
    pub fn new(checkpointer: Arc<dyn Checkpointer>, store: Arc<dyn Store>) -> Self {
        Self { checkpointer, store, graphs: BTreeMap::new() }
    }

    /// Creates an empty set of graphs that keep their threads and their long-term memory in memory, for development
    /// and tests.
    pub fn in_memory() -> Self {
        Self::new(Arc::new(MemorySaver::new()), Arc::new(InMemoryStore::new()))
    }

    /// Adds a graph that needs no dependencies.
    pub fn add<S: State>(
        self,
        name: impl Into<String>,
        graph: StateGraph<S>,
        schemas: Schemas,
    ) -> Result<Self, BuildError> {
        self.add_with_context(name, graph, schemas, |_| Ok(()))
    }

    /// Adds a graph whose dependencies are created from the context of each run. The error of `deps` describes why the
    /// context is invalid.
    pub fn add_with_context<S: State, C: Send + Sync + 'static>(
        mut self,
        name: impl Into<String>,
        graph: StateGraph<S, C>,
        schemas: Schemas,
        deps: impl Fn(&Map<String, Value>) -> Result<C, String> + Send + Sync + 'static,
    ) -> Result<Self, BuildError> {
        let name = name.into();
        let graph = graph
            .name(name.clone())
            .shared_checkpointer(self.checkpointer.clone())
            .store(self.store.clone())
            .compile()?;
        let graph = TypedGraph { graph, deps: Box::new(deps), schemas };
        self.graphs.insert(name, Arc::new(graph));
        Ok(self)
    }

    /// Passes the runs of a graph to `executor`, which executes them outside this process. The graph must have been
    /// added before. The server reads and edits the threads itself, so it must share the checkpointer with the
    /// executing processes. The function that creates dependencies from the context of a run is only called to check
    /// the context and to read threads.
    ///
    /// Each of these runs counts towards [`max_concurrent_runs`](super::ApiOptions::max_concurrent_runs()) while it
    /// executes.
    pub fn execute_with(
        mut self,
        name: &str,
        executor: impl RunExecutor + 'static,
    ) -> Result<Self, UnknownGraphError> {
        let local = self.graphs.remove(name).ok_or_else(|| UnknownGraphError(name.to_owned()))?;
        let executor = Arc::new(executor);
        let graph = ExecutorGraph { name: name.to_owned(), local, executor };
        self.graphs.insert(name.to_owned(), Arc::new(graph));
        Ok(self)
    }

    pub(super) fn get(&self, name: &str) -> Option<&Arc<dyn AnyGraph>> {
        self.graphs.get(name)
    }

    /// Returns whether other processes execute the runs of a graph.
    pub(super) fn has_executor(&self) -> bool {
        self.graphs.values().any(|it| !it.executes_locally())
    }

    /// Returns the names of the graphs, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.graphs.keys().map(String::as_str)
    }

    /// Returns the checkpointer that stores the threads of all graphs.
    pub(super) fn checkpointer(&self) -> &Arc<dyn Checkpointer> {
        &self.checkpointer
    }

    /// Returns the long-term store that all graphs share.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }
}

impl std::fmt::Debug for Graphs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}
