//! The graphs that the server hosts.

use std::{collections::BTreeMap, sync::Arc};

use graph_core::{
    BuildError, Checkpointer, MemorySaver, State, StateGraph,
    store::{InMemoryStore, Store},
};
use serde_json::{Map, Value};

use super::{
    any_graph::{AnyGraph, TypedGraph},
    schemas::Schemas,
};

/// The graphs that a server hosts, and the storage that they share.
///
/// The server compiles the graphs with its own checkpointer and store, so that it can manage their threads.
#[derive(Clone)]
pub struct Graphs {
    checkpointer: Arc<dyn Checkpointer>,
    store: Arc<dyn Store>,
    graphs: BTreeMap<String, Arc<dyn AnyGraph>>,
}

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

    pub(super) fn get(&self, name: &str) -> Option<&Arc<dyn AnyGraph>> {
        self.graphs.get(name)
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
