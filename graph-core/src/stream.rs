//! Streams: the ordered sequence of events of a run.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::{
    checkpoint::{
        id::{CheckpointId, TaskId},
        record::GotoRecord,
        stored::Source,
    },
    interrupt::Interrupt,
    state::{
        State,
        erased::{AnyState, ToJsonFn},
        field::FieldWrite,
    },
};

/// An event of a run.
///
/// A serialised event has no time, because the monotonic clock has no meaning in another process. A deserialised event
/// has the time of its deserialisation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Event {
    /// Sequence number within the run, starting at 0.
    #[serde(default)]
    pub seq: u64,
    /// When the event occurred, on the monotonic clock.
    #[serde(skip, default = "Instant::now")]
    pub at: Instant,
    /// Id of the run.
    #[serde(default)]
    pub run: Arc<str>,
    /// Namespace of the graph: empty for the top-level graph, `node:task` for a subgraph.
    pub namespace: Arc<str>,
    /// Number of the step.
    pub step: i64,
    /// Task that the event belongs to, if any.
    pub task: Option<TaskId>,
    /// Name of the node that this task runs.
    pub node: Option<Arc<str>>,
    /// For events of an error handler, the failed task.
    pub handled_task: Option<TaskId>,
    /// For events of a subgraph, the task that runs the subgraph. If an error handler runs the subgraph, this is the
    /// failed task.
    pub parent_task: Option<TaskId>,
    /// Kind and data of the event.
    pub kind: EventKind,
}

/// Kind and data of an event.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EventKind {
    /// The state after a step that changed it, or at the start of a run that continues a thread.
    Values(Values),
    /// A task finished with these writes.
    Update {
        /// The task's writes, in order.
        writes: Vec<FieldWrite>,
        /// Targets that the task's routes and commands chose, in addition to the node's edges.
        gotos: Vec<GotoRecord>,
        /// Whether the result was taken from the cache or an earlier run, without running the task.
        cached: bool,
        /// Whether the writes come from the node's error handler.
        handler: bool,
    },
    /// Tasks raised interrupts. The list is empty if a static stop was reached.
    Interrupted(Vec<Interrupt>),
    /// A value sent with [`Context::emit`](crate::Context::emit).
    Custom(Value),
    /// A message, or one token of a message, sent with [`Context::message`](crate::Context::message).
    Message(Value),
    /// A task is about to run.
    TaskStarted {
        /// The task's input.
        input: Value,
        /// Whether the input is a payload sent to the node. In task order, tasks with payloads come last.
        sent: bool,
    },
    /// A task ended.
    TaskFinished {
        /// The task's writes, in order.
        writes: Vec<FieldWrite>,
        /// Error message, if the task failed.
        error: Option<String>,
        /// Interrupts that the task raised.
        interrupts: Vec<Interrupt>,
        /// Targets that the task's routes and commands chose, in addition to the node's edges.
        gotos: Vec<GotoRecord>,
        /// Whether the task is an error handler.
        handler: bool,
    },
    /// An attempt to run a task failed, and the task will be retried.
    Retried {
        /// Number of the failed attempt, starting at 1.
        attempt: u32,
        /// Error message.
        error: String,
        /// Delay before the next attempt.
        wait: Duration,
    },
    /// An external call made by a task returned: see [`Context::task`](crate::Context::task).
    Effect {
        /// Name and key of the call.
        key: String,
        /// Result of the call.
        result: Value,
        /// Whether the result came from the journal or the effect interceptor, so that the call was not made.
        known: bool,
    },
    /// A checkpoint was created.
    Checkpoint {
        /// Id of the checkpoint.
        id: CheckpointId,
        /// Id of the parent checkpoint.
        parent: Option<CheckpointId>,
        /// What created the checkpoint.
        source: Source,
        /// Fields of the state.
        values: Value,
        /// Names of the nodes that run next.
        next: Vec<String>,
        /// Ids of the tasks that run next, in the order of `next`.
        #[serde(default)]
        next_tasks: Vec<TaskId>,
        /// Namespaces of the subgraphs that these tasks run, in the order of `next`. `None` if the node is not a
        /// subgraph.
        #[serde(default)]
        next_subgraphs: Vec<Option<String>>,
    },
}

impl EventKind {
    /// Returns the stream mode that includes this kind of event.
    pub fn mode(&self) -> StreamMode {
        match self {
            Self::Values(_) => StreamMode::Values,
            Self::Update { .. } | Self::Interrupted(_) => StreamMode::Updates,
            Self::Custom(_) => StreamMode::Custom,
            Self::Message(_) => StreamMode::Messages,
            Self::TaskStarted { .. } | Self::TaskFinished { .. } | Self::Retried { .. } => {
                StreamMode::Tasks
            }
            Self::Effect { .. } => StreamMode::Effects,
            Self::Checkpoint { .. } => StreamMode::Checkpoints,
        }
    }
}

/// Converts writes to one JSON object.
///
/// A field that is written several times becomes `{"$writes": [..]}`. An overwrite becomes `{"overwrite": ..}`.
pub fn writes_to_json(writes: &[FieldWrite]) -> Value {
    let to_json = |write: &FieldWrite| match write.overwrite {
        true => serde_json::json!({ "overwrite": write.value }),
        false => write.value.clone(),
    };
    let mut object = serde_json::Map::new();
    for write in writes {
        if object.contains_key(&write.field) {
            continue;
        }
        let mut same: Vec<_> =
            writes.iter().filter(|it| it.field == write.field).map(to_json).collect();
        let value =
            if same.len() == 1 { same.remove(0) } else { serde_json::json!({ "$writes": same }) };
        object.insert(write.field.clone(), value);
    }
    Value::Object(object)
}

/// A kind of event to stream.
///
/// ```
/// use graph_core::{EventKind, RunOptions, START, State, StateGraph, StreamMode};
///
/// #[derive(State, Clone, Debug, Default)]
/// struct Essay {
///     text: String,
/// }
///
/// async fn write(_: &Essay) -> EssayUpdate {
///     Essay::update().text("On tea")
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph = StateGraph::<Essay>::new().node(write).edge(START, write).compile()?;
/// let options = RunOptions::new().stream_modes([StreamMode::Updates]);
/// let mut events = graph.with(options).stream(Essay::default(), ());
/// while let Some(event) = events.next().await {
///     assert!(matches!(event.kind, EventKind::Update { .. }));
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum StreamMode {
    /// The state after each step.
    Values = 1,
    /// The writes of each task.
    Updates = 2,
    /// Values sent with [`Context::emit`](crate::Context::emit).
    Custom = 4,
    /// Messages sent with [`Context::message`](crate::Context::message).
    Messages = 8,
    /// The start and end of each task, and its failed attempts.
    Tasks = 16,
    /// Each checkpoint.
    Checkpoints = 32,
    /// Each external call that returned.
    Effects = 64,
}

impl StreamMode {
    /// All modes.
    pub const DEBUG: [Self; 7] = [
        Self::Values,
        Self::Updates,
        Self::Custom,
        Self::Messages,
        Self::Tasks,
        Self::Checkpoints,
        Self::Effects,
    ];
}

/// The state of a graph in an event. It is converted to JSON on demand.
#[derive(Clone)]
pub struct Values {
    content: Content,
    output: bool,
}

#[derive(Clone)]
enum Content {
    Live {
        state: AnyState,
        to_json: ToJsonFn,
    },
    /// A state that was deserialised, for example from another process. It holds all fields and, separately, the
    /// output fields.
    Json {
        all: Value,
        output: Value,
    },
}

impl Values {
    pub(crate) fn new(state: AnyState, to_json: ToJsonFn, output: bool) -> Self {
        Self { content: Content::Live { state, to_json }, output }
    }

    /// Returns whether an output field was written.
    pub fn touches_output(&self) -> bool {
        self.output
    }

    /// Returns the state, if it has the type `S` and the run belongs to this process.
    ///
    /// While an event holds the state, the run copies the state instead of changing it in place.
    pub fn get<S: State>(&self) -> Option<&S> {
        match &self.content {
            Content::Live { state, .. } => state.downcast_ref(),
            Content::Json { .. } => None,
        }
    }

    /// Returns all fields as a JSON object.
    pub fn to_json(&self) -> Value {
        match &self.content {
            Content::Live { state, to_json } => to_json(&**state, |_| true),
            Content::Json { all, .. } => all.clone(),
        }
    }

    /// Returns the output fields as a JSON object.
    pub fn output_json(&self) -> Value {
        match &self.content {
            Content::Live { state, to_json } => to_json(&**state, |field| field.output),
            Content::Json { output, .. } => output.clone(),
        }
    }
}

/// Serialised form of [`Values`].
#[derive(Serialize, Deserialize)]
struct StoredValues {
    all: Value,
    output: Value,
    touches_output: bool,
}

impl Serialize for Values {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (all, output) = (self.to_json(), self.output_json());
        StoredValues { all, output, touches_output: self.output }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let StoredValues { all, output, touches_output } = StoredValues::deserialize(deserializer)?;
        Ok(Self { content: Content::Json { all, output }, output: touches_output })
    }
}

impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.to_json())
    }
}

/// The step and, if there is one, the task that an event belongs to.
pub(crate) struct EventOrigin {
    pub(crate) step: i64,
    pub(crate) task: Option<TaskId>,
    pub(crate) node: Option<Arc<str>>,
    pub(crate) handled_task: Option<TaskId>,
}

impl EventOrigin {
    /// Returns the origin of an event that belongs to no task.
    pub(crate) fn step(step: i64) -> Self {
        Self { step, task: None, node: None, handled_task: None }
    }
}

/// Sends events to the stream's reader. Waits while the channel is full.
#[derive(Clone, Debug)]
pub(crate) struct EventSender {
    events: mpsc::Sender<Event>,
    modes: u8,
    subgraphs: bool,
    run: Arc<str>,
    namespace: Arc<str>,
    parent_task: Option<TaskId>,
}

impl EventSender {
    pub(crate) fn new(
        events: mpsc::Sender<Event>,
        modes: &[StreamMode],
        subgraphs: bool,
        run: Arc<str>,
    ) -> Self {
        let modes = modes.iter().fold(0, |all, mode| all | *mode as u8);
        Self { events, modes, subgraphs, run, namespace: Arc::from(""), parent_task: None }
    }

    /// Returns the sender for a subgraph run by the task `parent`, if events of subgraphs were requested.
    pub(crate) fn nested(&self, namespace: &str, parent: TaskId) -> Option<Self> {
        self.subgraphs.then(|| Self {
            namespace: Arc::from(namespace),
            parent_task: Some(parent),
            ..self.clone()
        })
    }

    pub(crate) fn accepts(&self, mode: StreamMode) -> bool {
        self.modes & mode as u8 != 0
    }

    /// Returns the requested stream modes.
    pub(crate) fn modes(&self) -> Vec<StreamMode> {
        StreamMode::DEBUG.into_iter().filter(|it| self.accepts(*it)).collect()
    }

    /// Sends an event if its stream mode was requested.
    pub(crate) async fn send(&self, origin: EventOrigin, kind: EventKind) {
        if !self.accepts(kind.mode()) {
            return;
        }
        let EventOrigin { step, task, node, handled_task } = origin;
        let event = Event {
            // The reader sets this number, because tasks send concurrently and the channel determines the order.
            seq: 0,
            at: Instant::now(),
            run: self.run.clone(),
            namespace: self.namespace.clone(),
            step,
            task,
            node,
            handled_task,
            parent_task: self.parent_task,
            kind,
        };
        self.deliver(event).await;
    }

    /// Sends an event of a graph in another process, if its stream mode was requested. The event keeps its namespace.
    pub(crate) async fn forward(&self, event: Event) {
        if self.accepts(event.kind.mode()) {
            self.deliver(Event { at: Instant::now(), run: self.run.clone(), ..event }).await;
        }
    }

    async fn deliver(&self, event: Event) {
        // If the reader has been dropped, the run is being dropped too. Yielding lets the runtime abort this task,
        // which may run on another worker thread, before the task stores results that were never reported.
        if self.events.send(event).await.is_err() {
            tokio::task::yield_now().await;
        }
    }
}
