//! The state of a thread at one of its checkpoints.

use std::{collections::BTreeMap, time::SystemTime};

use serde_json::{Map, Value};

use crate::{
    checkpoint::{
        id::{CheckpointId, TaskId},
        stored::Source,
    },
    interrupt::Interrupt,
    state::field::FieldWrite,
};

/// The state of a thread, or of one of its subgraphs, at a checkpoint.
///
/// `S` is the state type of the thread's graph. The state of a subgraph is a JSON object of the fields that have a
/// value.
///
/// ```
/// use graph_core::{Context, MemorySaver, NodeError, START, State, StateGraph};
///
/// #[derive(State, Clone, Debug, Default)]
/// struct Order {
///     item: String,
///     approved: bool,
/// }
///
/// async fn approve(order: &Order, cx: &Context) -> Result<OrderUpdate, NodeError> {
///     let approved: bool = cx.interrupt(format!("Buy {}?", order.item))?;
///     Ok(Order::update().approved(approved))
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let graph = StateGraph::<Order>::new().node(approve).edge(START, approve);
/// # let graph = graph.checkpointer(MemorySaver::new()).compile()?;
/// let thread = graph.thread("order-7", ());
/// thread.run(Order::update().item("tea")).await?;
///
/// let state = thread.state().await?.ok_or("the thread has run")?;
/// assert_eq!(state.values.item, "tea");
/// assert_eq!(state.next, ["approve"]);
/// assert_eq!(state.interrupts()[0].value, "Buy tea?");
///
/// thread.resume(true).await?;
/// let state = thread.state().await?.ok_or("the thread has run")?;
/// assert!(state.is_done() && state.values.approved);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct ThreadState<S> {
    /// State of the graph at the checkpoint.
    pub values: S,
    /// Nodes that run next. Nodes whose task is already done are left out, so an empty list does not mean that the
    /// thread is done: see [`is_done`](Self::is_done).
    pub next: Vec<String>,
    /// Tasks of the next step, with their records.
    pub tasks: Vec<TaskState>,
    /// Namespace of the graph: empty for the thread's own graph, `node:task` for a subgraph.
    pub namespace: String,
    /// Id of the checkpoint.
    pub id: CheckpointId,
    /// Id of the parent checkpoint.
    pub parent: Option<CheckpointId>,
    /// Current checkpoint of each enclosing graph, by namespace, when the checkpoint was created. Empty for the
    /// thread's own graph.
    pub enclosing: BTreeMap<String, CheckpointId>,
    /// Step number of the checkpoint. The first input of a thread is step -1.
    pub step: i64,
    /// What created the checkpoint.
    pub source: Source,
    /// When the checkpoint was created.
    pub created_at: SystemTime,
    /// Id of the run that created the checkpoint.
    pub run: String,
    /// Metadata from the run's options.
    pub metadata: Map<String, Value>,
    /// Joins that are still waiting for some of their sources, each as a pair of its target node and its missing
    /// sources.
    pub pending_joins: Vec<(String, Vec<String>)>,
}

/// A task of the step that follows a checkpoint.
#[derive(Clone, Debug)]
pub struct TaskState {
    /// The task's id.
    pub id: TaskId,
    /// The node's name.
    pub node: String,
    /// Index of the payload that was sent to the node, among the payloads of the step. `None` if the task has no
    /// payload.
    pub payload_index: Option<u32>,
    /// Error message of a failed task.
    pub error: Option<String>,
    /// Pending interrupts of the task.
    pub interrupts: Vec<Interrupt>,
    /// Writes of a finished task.
    pub result: Option<Vec<FieldWrite>>,
    /// Namespace of the task's subgraph, if the node is a subgraph: see [`Thread::subgraph`](crate::Thread::subgraph).
    pub subgraph_namespace: Option<String>,
    /// State of the task's subgraph, if subgraph states were requested and the subgraph has a checkpoint.
    pub subgraph: Option<Box<ThreadState<Value>>>,
}

impl<S> ThreadState<S> {
    /// Converts the values, for example to JSON.
    pub fn map_values<V>(self, convert: impl FnOnce(S) -> V) -> ThreadState<V> {
        ThreadState {
            values: convert(self.values),
            next: self.next,
            tasks: self.tasks,
            namespace: self.namespace,
            id: self.id,
            parent: self.parent,
            enclosing: self.enclosing,
            step: self.step,
            source: self.source,
            created_at: self.created_at,
            run: self.run,
            metadata: self.metadata,
            pending_joins: self.pending_joins,
        }
    }

    /// Returns whether the thread is done, that is, no step follows the checkpoint.
    ///
    /// After a crash, all tasks of a step may be done although the step's own checkpoint was not stored. In that case
    /// [`next`](Self::next) is empty, but the thread is not done.
    pub fn is_done(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Returns the pending interrupts.
    pub fn interrupts(&self) -> Vec<&Interrupt> {
        self.tasks.iter().flat_map(|it| &it.interrupts).collect()
    }
}
