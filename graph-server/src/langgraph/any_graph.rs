//! The interface of graphs, independent of their state types.

use async_trait::async_trait;
use graph_core::{
    AsNode, Event, HistoryFilter, Interrupt, RunControl, RunError, ThreadState,
    checkpoint::CheckpointId, draw::Drawing, state::Field,
};
use serde_json::{Map, Value};

use super::{
    error::NamedError, executor::ExecutorError, position::Position, request::run::RunKwargs,
    schemas::Schemas,
};

/// A run of a graph.
pub(super) struct GraphRun<'a> {
    pub(super) run: &'a str,
    pub(super) thread: &'a str,
    /// Owner of the run.
    pub(super) owner: Option<&'a str>,
    /// The checkpoint that the run starts from.
    pub(super) at: Position,
    pub(super) kwargs: &'a RunKwargs,
    /// Metadata of the run's checkpoints.
    pub(super) metadata: Map<String, Value>,
    pub(super) control: RunControl,
}

/// Outcome of a run.
pub(super) struct GraphEnd {
    /// The output of the run.
    pub(super) output: Value,
    /// The pending interrupts.
    pub(super) interrupts: Vec<Interrupt>,
}

/// The reason why a run has no outcome.
#[derive(Debug)]
pub(super) enum GraphFailure {
    Cancelled,
    TimedOut(NamedError),
    Failed(NamedError),
}

impl From<RunError> for GraphFailure {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Cancelled => Self::Cancelled,
            RunError::StepTimeout { .. } => Self::TimedOut(NamedError::of_run(&error)),
            _ => Self::Failed(NamedError::of_run(&error)),
        }
    }
}

impl From<ExecutorError> for GraphFailure {
    fn from(error: ExecutorError) -> Self {
        match error {
            ExecutorError::Cancelled => Self::Cancelled,
            ExecutorError::TimedOut(error) => Self::TimedOut(error),
            ExecutorError::Failed(error) => Self::Failed(error),
            ExecutorError::Unavailable(_) => {
                Self::Failed(NamedError::new("ExecutorError", error.to_string()))
            }
        }
    }
}

/// The state of a thread, or of one of its subgraphs, at a checkpoint.
pub(super) type Snapshot = ThreadState<Value>;

/// One edit of a thread's state.
pub(super) struct Edit {
    pub(super) fields: Option<Map<String, Value>>,
    pub(super) as_node: AsNode,
}

/// A graph whose state type is erased.
#[async_trait]
pub(super) trait AnyGraph: Send + Sync {
    /// Executes or resumes a run, and passes its events to `publish`.
    async fn run(
        &self,
        run: GraphRun<'_>,
        publish: &mut (dyn FnMut(Event) + Send),
    ) -> Result<GraphEnd, GraphFailure>;

    /// Returns whether this process executes the runs. Runs in other processes are not affected by a restart of the
    /// server; after the restart, [`run`](Self::run) publishes all events of such a run again.
    fn executes_locally(&self) -> bool {
        true
    }

    /// Cancels a run in the processes that execute it, and returns when it is no longer executing. Waits while they are
    /// unavailable.
    async fn cancel(&self, _run: &str) -> Result<(), ExecutorError> {
        Ok(())
    }

    /// Deletes the data of a thread in the processes that execute its runs.
    async fn delete_thread(&self, _thread: &str) -> Result<(), ExecutorError> {
        Ok(())
    }

    /// Returns the state of a thread, or of one of its subgraphs. Returns `None` if it does not exist.
    async fn state(
        &self,
        thread: &str,
        at: &Position,
        subgraphs: bool,
    ) -> Result<Option<Snapshot>, RunError>;

    /// Returns the checkpoints of a thread, or of the subgraph with this namespace, that match the query, newest first.
    async fn history(
        &self,
        thread: &str,
        namespace: &str,
        filter: HistoryFilter,
    ) -> Result<Vec<Snapshot>, RunError>;

    /// Applies edits to a thread, or to one of its subgraphs. Each inner list forms one step.
    async fn edit(
        &self,
        thread: &str,
        at: &Position,
        metadata: Map<String, Value>,
        steps: Vec<Vec<Edit>>,
    ) -> Result<CheckpointId, RunError>;

    /// Checks that a run can have this context. The error describes the problem.
    fn check_context(&self, context: &Map<String, Value>) -> Result<(), String>;

    /// Returns the structure of the graph, with subgraphs expanded to `depth` levels.
    fn drawing(&self, depth: usize) -> Drawing;

    fn schemas(&self) -> &Schemas;

    /// Returns the fields of the graph's state.
    fn fields(&self) -> &[Field];
}

/// Returns the values that a client has sent for the selected fields. As in LangGraph, other values are ignored: chat
/// clients send fields that only some graphs have.
pub(super) fn select_fields(
    known: &[Field],
    given: &Map<String, Value>,
    select: impl Fn(&Field) -> bool,
) -> Map<String, Value> {
    let field = |field: &Field| {
        let (name, value) = given.get_key_value(&*field.name)?;
        Some((name.clone(), value.clone()))
    };
    known.iter().filter(|it| select(it)).filter_map(field).collect()
}
