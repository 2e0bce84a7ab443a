//! A compiled graph that runs in another process.

use std::{fmt, marker::PhantomData, sync::Arc};

use crate::{
    graph::{compiled::CompiledGraph, erased::Graph},
    remote::call::RemoteRunner,
    state::State,
};

/// A compiled graph that runs in another process when it is a subgraph: see the [module](crate::remote). Cheap to
/// clone.
pub struct RemoteGraph<S: State> {
    pub(crate) graph: Arc<Graph>,
    pub(crate) runner: Arc<dyn RemoteRunner>,
    state: PhantomData<fn() -> S>,
}

impl<S: State, C: Send + Sync + 'static> CompiledGraph<S, C> {
    /// Returns the graph as a subgraph that `runner` runs in another process.
    ///
    /// This copy of the graph provides the drawing and the fields of the state; the other process runs its own copy,
    /// with its own dependencies.
    pub fn remote(&self, runner: Arc<dyn RemoteRunner>) -> RemoteGraph<S> {
        RemoteGraph { graph: self.erased().clone(), runner, state: PhantomData }
    }
}

impl<S: State> Clone for RemoteGraph<S> {
    fn clone(&self) -> Self {
        Self { graph: self.graph.clone(), runner: self.runner.clone(), state: PhantomData }
    }
}

impl<S: State> fmt::Debug for RemoteGraph<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteGraph")
            .field("graph", &self.graph)
            .field("runner", &self.runner)
            .finish()
    }
}
