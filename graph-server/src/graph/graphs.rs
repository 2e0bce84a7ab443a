//! A set of compiled graphs, which executes their runs.

use std::{collections::BTreeMap, fmt, io, sync::Arc};

use async_trait::async_trait;
use graph_core::{CompiledGraph, State};

use super::{
    any_graph::{AnyGraph, TypedGraph},
    event_log::EventLog,
    run_config::{ResumeArgs, RunConfig},
};
use crate::{
    registry::Registry,
    run::{RunEvent, RunInfo},
    runner::{EventSender, Runner, RunnerError, RunnerOutcome},
};

/// A set of compiled graphs, identified by name. It is the [`Runner`] for runs of these graphs.
///
/// Events are stored in the registry's database. A step that was interrupted by a crash is executed again and emits
/// its events again, with new sequence numbers.
///
/// ```
/// use graph_core::{MemorySaver, START, State, StateGraph};
/// use graph_server::{Registry, graph::Graphs};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
/// struct Essay {
///     topic: String,
///     text: String,
/// }
///
/// async fn write(essay: &Essay) -> EssayUpdate {
///     Essay::update().text(format!("On {}", essay.topic))
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let essays = StateGraph::<Essay>::new().node(write).edge(START, write);
/// let essays = essays.checkpointer(MemorySaver::new()).compile()?;
/// let graphs = Graphs::new(Registry::in_memory()?).add("essays", essays, || ());
/// // Pass them to `Service::open` and `routes`: see the example of the module.
/// # let _ = graphs;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Graphs {
    events: EventLog,
    graphs: BTreeMap<String, Arc<dyn AnyGraph>>,
}

impl fmt::Debug for Graphs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.graphs.keys()).finish()
    }
}

impl Graphs {
    /// Creates an empty set of graphs whose events are stored in `registry`.
    pub fn new(registry: Registry) -> Self {
        Self { events: EventLog::new(registry), graphs: BTreeMap::new() }
    }

    /// Adds a graph, which must have a checkpointer. For each run, `deps` creates the dependencies of the nodes.
    #[must_use]
    pub fn add<S: State, C: Send + Sync + 'static>(
        mut self,
        name: impl Into<String>,
        graph: CompiledGraph<S, C>,
        deps: impl Fn() -> C + Send + Sync + 'static,
    ) -> Self {
        self.graphs.insert(name.into(), Arc::new(TypedGraph { graph, deps: Box::new(deps) }));
        self
    }

    /// Returns the names of all graphs, in order.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.graphs.keys().map(String::as_str)
    }

    pub(super) fn get(&self, name: &str) -> Option<&dyn AnyGraph> {
        self.graphs.get(name).map(|it| &**it)
    }
}

#[async_trait]
impl Runner for Graphs {
    async fn execute(
        &self,
        run: &RunInfo,
        sender: &EventSender,
    ) -> Result<RunnerOutcome, RunnerError> {
        let config: RunConfig = serde_json::from_value(run.input.clone())
            .map_err(|error| RunnerError(format!("cannot read the input of the run: {error}")))?;
        let Some(graph) = self.graphs.get(&config.graph) else {
            return Err(RunnerError(format!(
                "graph `{}` does not exist on this server; add the graph to the server and resume the run",
                config.graph
            )));
        };
        // A run that was never resumed has no arguments.
        let args: Option<ResumeArgs> = serde_json::from_value(run.resume_args.clone())
            .map_err(|error| RunnerError(format!("cannot read the answers of the run: {error}")))?;
        let answers = args.unwrap_or_default().answers;
        graph.execute(&self.events, &run.id, config, answers, sender).await
    }

    fn events(&self, run: &str, after: u64, limit: usize) -> io::Result<Vec<RunEvent>> {
        self.events.read(run, after, limit)
    }
}
