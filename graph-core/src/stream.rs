//! Streams: one ordered sequence of events, from which every view of a run is made.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::{
    FieldWrite, Interrupt, State,
    checkpoint::{CheckpointId, GotoRecord, Source, TaskId},
    context::TaskContext,
    state::erased::{AnyState, LazyJson},
};

/// Something that happened in a run.
#[derive(Clone, Debug)]
pub struct Event {
    /// Counts the run's events, from 0.
    pub seq: u64,
    /// When it happened, on the clock that only goes on.
    pub at: Instant,
    /// The run.
    pub run: Arc<str>,
    /// The graph it happened in: empty for the root, `node:task` for a subgraph.
    pub namespace: Arc<str>,
    /// The step.
    pub step: i64,
    /// The task, where it is one task's event.
    pub task: Option<TaskId>,
    /// The node, where it is one task's event.
    pub node: Option<Arc<str>>,
    /// The failed task whose place this one takes, where it is an error handler's event.
    pub handles: Option<TaskId>,
    /// The task that runs the graph it happened in, where that is a subgraph; where an error handler runs it, the
    /// failed task.
    pub outer: Option<TaskId>,
    /// What happened.
    pub kind: EventKind,
}

/// What happened.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EventKind {
    /// The state after a step that wrote to it, or at the start of a run that goes on.
    Values(Values),
    /// A task finished with these writes.
    Update {
        /// The writes, in order.
        writes: Vec<FieldWrite>,
        /// Where its routes and commands lead, besides its node's edges.
        gotos: Vec<GotoRecord>,
        /// Whether the task was not run, but its result taken from the cache or an earlier run.
        cached: bool,
        /// Whether the node's error handler made it.
        handler: bool,
    },
    /// Tasks ask something, or a static stop was reached (then there is no question).
    Interrupted(Vec<Interrupt>),
    /// What a node wrote to the custom stream.
    Custom(Value),
    /// A message or a token of one.
    Message(Value),
    /// A task is about to run.
    TaskStarted {
        /// What it runs on.
        input: Value,
        /// Whether that was sent to it. Tasks that were not come first in task order.
        sent: bool,
    },
    /// A task is over.
    TaskFinished {
        /// Its writes, in order.
        writes: Vec<FieldWrite>,
        /// Its error.
        error: Option<String>,
        /// Its questions.
        interrupts: Vec<Interrupt>,
        /// Where its routes and commands lead, besides its node's edges.
        gotos: Vec<GotoRecord>,
        /// Whether it is an error handler.
        handler: bool,
    },
    /// An attempt of a task failed, and another one follows.
    Retried {
        /// Which attempt it was: 1 for the first.
        attempt: u32,
        /// Its error.
        error: String,
        /// How long the next one waits.
        wait: Duration,
    },
    /// An outside call of a task came back: see [`Context::task`](crate::Context::task).
    Effect {
        /// Its name and key.
        key: String,
        /// What it brought.
        result: Value,
        /// Whether it was not made, but known from before.
        known: bool,
    },
    /// A checkpoint was made.
    Checkpoint {
        /// Its id.
        id: CheckpointId,
        /// The one before it.
        parent: Option<CheckpointId>,
        /// What came to it.
        source: Source,
        /// The fields it holds.
        values: Value,
        /// The nodes that run next, by name.
        next: Vec<String>,
    },
}

impl EventKind {
    /// The view that shows events of this kind.
    pub fn mode(&self) -> Mode {
        match self {
            Self::Values(_) => Mode::Values,
            Self::Update { .. } | Self::Interrupted(_) => Mode::Updates,
            Self::Custom(_) => Mode::Custom,
            Self::Message(_) => Mode::Messages,
            Self::TaskStarted { .. } | Self::TaskFinished { .. } | Self::Retried { .. } => {
                Mode::Tasks
            }
            Self::Effect { .. } => Mode::Effects,
            Self::Checkpoint { .. } => Mode::Checkpoints,
        }
    }
}

/// Writes as one JSON object.
///
/// A field written twice becomes `{"$writes": [..]}`, an overwrite `{"overwrite": ..}`.
pub fn writes_to_json(writes: &[FieldWrite]) -> Value {
    let shown = |write: &FieldWrite| match write.overwrite {
        true => serde_json::json!({ "overwrite": write.value }),
        false => write.value.clone(),
    };
    let mut object = serde_json::Map::new();
    for write in writes {
        if object.contains_key(&write.field) {
            continue;
        }
        let mut same: Vec<_> =
            writes.iter().filter(|it| it.field == write.field).map(shown).collect();
        let value =
            if same.len() == 1 { same.remove(0) } else { serde_json::json!({ "$writes": same }) };
        object.insert(write.field.clone(), value);
    }
    Value::Object(object)
}

/// A view of a run: which kinds of events to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Mode {
    /// The state after each step.
    Values = 1,
    /// The update of each task.
    Updates = 2,
    /// What nodes write with [`Context::emit`](crate::Context::emit).
    Custom = 4,
    /// What nodes write with [`Context::message`](crate::Context::message).
    Messages = 8,
    /// The start and the end of each task, and its attempts that failed.
    Tasks = 16,
    /// Each checkpoint.
    Checkpoints = 32,
    /// Each outside call that came back.
    Effects = 64,
}

impl Mode {
    /// All there is: tasks, checkpoints and effects with all the rest.
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

/// A state in an event. It is made into JSON only when somebody asks.
#[derive(Clone)]
pub struct Values {
    content: Content,
    output: bool,
}

#[derive(Clone)]
enum Content {
    Live {
        state: AnyState,
        to_json: LazyJson,
    },
    /// What came from another process: all fields, and those of the output.
    Json {
        all: Value,
        output: Value,
    },
}

impl Values {
    pub(crate) fn new(state: AnyState, to_json: LazyJson, output: bool) -> Self {
        Self { content: Content::Live { state, to_json }, output }
    }

    /// Whether a field of the output is among what was written.
    pub fn touches_output(&self) -> bool {
        self.output
    }

    /// The state itself, if it is of that type and the run is one of this process.
    ///
    /// While an event is held, the run copies the state instead of changing it in place.
    pub fn get<S: State>(&self) -> Option<&S> {
        match &self.content {
            Content::Live { state, .. } => state.downcast_ref(),
            Content::Json { .. } => None,
        }
    }

    /// The state's fields as a JSON object.
    pub fn to_json(&self) -> Value {
        match &self.content {
            Content::Live { state, to_json } => to_json(&**state, |_| true),
            Content::Json { all, .. } => all.clone(),
        }
    }

    /// The fields of the state that are part of the output, as a JSON object.
    pub fn output_json(&self) -> Value {
        match &self.content {
            Content::Live { state, to_json } => to_json(&**state, |field| field.output),
            Content::Json { output, .. } => output.clone(),
        }
    }
}

/// How a state goes to another process.
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

/// Where events go; a full channel makes the run wait.
#[derive(Clone, Debug)]
pub(crate) struct Sink {
    events: mpsc::Sender<Event>,
    modes: u8,
    subgraphs: bool,
    run: Arc<str>,
    namespace: Arc<str>,
    outer: Option<TaskId>,
}

impl Sink {
    pub(crate) fn new(
        events: mpsc::Sender<Event>,
        modes: &[Mode],
        subgraphs: bool,
        run: Arc<str>,
    ) -> Self {
        let modes = modes.iter().fold(0, |all, mode| all | *mode as u8);
        Self { events, modes, subgraphs, run, namespace: Arc::from(""), outer: None }
    }

    /// The sink of a graph that a task of this one runs, if such events are wanted.
    pub(crate) fn nested(&self, namespace: &str, task: &TaskContext) -> Option<Self> {
        self.subgraphs.then(|| Self {
            namespace: Arc::from(namespace),
            // Nobody announces a handler: it is known as the task whose place it takes.
            outer: Some(task.handles().unwrap_or_else(|| task.id())),
            ..self.clone()
        })
    }

    pub(crate) fn wants(&self, mode: Mode) -> bool {
        self.modes & mode as u8 != 0
    }

    pub(crate) async fn send(&self, step: i64, kind: EventKind) {
        self.push(step, None, kind).await;
    }

    pub(crate) async fn task_event(&self, task: &TaskContext, kind: EventKind) {
        self.push(task.step, Some(task), kind).await;
    }

    async fn push(&self, step: i64, task: Option<&TaskContext>, kind: EventKind) {
        if !self.wants(kind.mode()) {
            return;
        }
        let event = Event {
            // Numbered by the reader: several tasks send at once, and the channel decides the order.
            seq: 0,
            at: Instant::now(),
            run: self.run.clone(),
            namespace: self.namespace.clone(),
            step,
            task: task.map(TaskContext::id),
            node: task.map(|it| Arc::from(it.node())),
            handles: task.and_then(TaskContext::handles),
            outer: self.outer,
            kind,
        };
        // A reader that is gone wants nothing more; the run itself is ended by dropping its future. A task on another
        // worker is ended where it waits next: it is to wait here, before it stores what nobody was told of.
        if self.events.send(event).await.is_err() {
            tokio::task::yield_now().await;
        }
    }
}
