//! Graphs that a worker executes, and their versions.

use std::{collections::BTreeMap, fmt, sync::Arc};

use futures_util::{FutureExt, future::BoxFuture};
use graph_core::{CompiledGraph, NodeError, State};
use serde_json::Value;

use crate::{
    error::ClusterError,
    graph::{AnyGraph, TypedGraph},
    graph_version::{ServedVersions, graph_key},
    run::check_name,
};

/// A graph that a worker executes, with its version.
///
/// A run stays on the version with which its first worker started it: only workers that have registered this version,
/// or a version that [continues](Self::continues) it, claim the run and its tasks.
///
/// ```
/// use graph_cluster::RegisteredGraph;
/// use graph_core::{CompiledGraph, State};
///
/// # #[derive(State, Clone, Debug, Default)]
/// # struct Essay { text: String }
/// fn register(graph: CompiledGraph<Essay>) -> RegisteredGraph {
///     // The graph has migrations from the states of version 1.
///     RegisteredGraph::new("essay", graph, || ()).version("2").continues("1")
/// }
/// ```
///
/// The compiler checks that the state and all payloads are serialisable:
///
/// ```compile_fail
/// use graph_cluster::RegisteredGraph;
/// use graph_core::{CompiledGraph, State};
///
/// // Derive `serde::Serialize` and `serde::Deserialize` to fix the error.
/// #[derive(Clone, Debug, Default)]
/// struct Text(String);
///
/// #[derive(State, Clone, Debug, Default)]
/// struct Essay {
///     text: Text,
/// }
///
/// fn register(graph: CompiledGraph<Essay>) -> RegisteredGraph {
///     RegisteredGraph::new("essay", graph, || ()).version("2").continues("1")
/// }
/// ```
#[must_use]
pub struct RegisteredGraph {
    pub(crate) name: String,
    pub(crate) version: String,
    /// Versions whose runs this version continues.
    continued: Vec<String>,
    pub(crate) graph: Arc<dyn AnyGraph>,
}

impl RegisteredGraph {
    /// Registers a graph without a version. `deps` creates the dependencies of its nodes for each leg of a run and for
    /// each spread task, so connections and caches should be shared by cloning handles.
    pub fn new<S: State, C: Send + Sync + 'static>(
        name: impl Into<String>,
        graph: CompiledGraph<S, C>,
        deps: impl Fn() -> C + Send + Sync + 'static,
    ) -> Self {
        Self::erased(name, graph, move |_| std::future::ready(Ok(deps())).boxed())
    }

    /// Registers a graph whose dependencies depend on the run. `deps` receives the value of
    /// [`StartRun::context`](crate::StartRun::context). If it fails, the run fails.
    pub fn with_context<S: State, C: Send + Sync + 'static, F>(
        name: impl Into<String>,
        graph: CompiledGraph<S, C>,
        deps: impl Fn(Value) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<C, NodeError>> + Send + 'static,
    {
        Self::erased(name, graph, move |context| deps(context).boxed())
    }

    fn erased<S: State, C: Send + Sync + 'static>(
        name: impl Into<String>,
        graph: CompiledGraph<S, C>,
        deps: impl Fn(Value) -> BoxFuture<'static, Result<C, NodeError>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            version: String::new(),
            continued: Vec::new(),
            graph: Arc::new(TypedGraph { graph, deps: Box::new(deps) }),
        }
    }

    /// Sets the version of the graph. Change it whenever nodes, edges or inputs of nodes change.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = version.into();
        self
    }

    /// Also executes runs that started with another version of the graph. Their states must be readable: unchanged, or
    /// converted by the graph's [`Migrations`](graph_core::Migrations). Such a run then stays on the new version. For
    /// runs of a graph that was registered without a version, pass an empty version.
    pub fn continues(mut self, version: impl Into<String>) -> Self {
        self.continued.push(version.into());
        self
    }
}

impl fmt::Debug for RegisteredGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegisteredGraph")
            .field("name", &self.name)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

/// The graphs of a worker.
pub(crate) struct GraphRegistry {
    graphs: BTreeMap<String, RegisteredGraph>,
    served: ServedVersions,
}

impl GraphRegistry {
    /// Checks the names and the pools of the graphs. New runs start on the first registered version of a graph.
    pub(crate) fn new(registered: Vec<RegisteredGraph>) -> Result<Self, ClusterError> {
        let mut graphs = BTreeMap::new();
        let mut targets = BTreeMap::new();
        for graph in registered {
            check_name("graph name", &graph.name)?;
            if let Some(node) = graph.graph.immovable_pool_nodes().into_iter().next() {
                return Err(ClusterError::ImmovableNode { graph: graph.name, node });
            }
            let own = [None, Some(graph.version.clone())];
            for version in own.into_iter().chain(graph.continued.iter().cloned().map(Some)) {
                let key = (graph.name.clone(), version);
                targets.entry(key).or_insert_with(|| graph.version.clone());
            }
            let key = graph_key(&graph.name, &graph.version);
            if graphs.contains_key(&key) {
                return Err(ClusterError::DuplicateGraph(key));
            }
            graphs.insert(key, graph);
        }
        let mut served = ServedVersions::default();
        for ((graph, version), target) in targets {
            served.graphs.push(graph);
            served.versions.push(version);
            served.targets.push(target);
        }
        Ok(Self { graphs, served })
    }

    /// Returns the graph with this [key](graph_key).
    pub(crate) fn find(&self, key: &str) -> Option<&dyn AnyGraph> {
        self.graphs.get(key).map(|it| &*it.graph)
    }

    /// Returns the keys of all graphs.
    pub(crate) fn keys(&self) -> Vec<String> {
        self.graphs.keys().cloned().collect()
    }

    pub(crate) fn served(&self) -> &ServedVersions {
        &self.served
    }
}

#[cfg(test)]
mod tests {
    use graph_core::{NodeExt, START, StateGraph};

    use super::*;

    #[derive(State, Clone, Debug, Default)]
    struct Essay {
        text: String,
    }

    async fn write(_: &Essay) -> EssayUpdate {
        Essay::update().text("On tea")
    }

    #[test]
    fn nodes_that_cannot_run_on_another_worker_cannot_have_a_pool() {
        // Tasks of an eager graph are always executed by the worker of the run.
        let graph = StateGraph::<Essay>::new().node(write.pool("gpu")).edge(START, write).eager();
        let graph = graph.compile().expect("the graph is valid");
        let rejected = GraphRegistry::new(vec![RegisteredGraph::new("essay", graph, || ())]);
        let Err(ClusterError::ImmovableNode { graph, node }) = rejected else {
            panic!("the graph was registered");
        };
        assert_eq!((graph.as_str(), node.as_str()), ("essay", "write"));
    }
}
