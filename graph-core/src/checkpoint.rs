//! Checkpoints: what is stored of a thread after each step, and the trait of what stores it.
//!
//! A checkpoint is written as a [`NewCheckpoint`], which holds only what changed since its base, and read
//! back as a whole [`Checkpoint`]. How the changes are kept is the checkpointer's own affair.

mod change;
mod id;
mod memory;
#[cfg(feature = "testkit")]
pub mod testkit;

use std::{collections::BTreeMap, fmt, time::SystemTime};

use async_trait::async_trait;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

pub use change::Change;
pub use id::{CheckpointId, TaskId};
pub use memory::MemorySaver;

use crate::{FieldWrite, Interrupt};

/// Stores the checkpoints of threads.
///
/// An implementation passes the suite in [`testkit`](crate::checkpoint) (feature `testkit`).
/// All methods may be called from several tasks at once.
#[async_trait]
pub trait Checkpointer: Send + Sync + fmt::Debug {
    /// Takes the thread for one run; a second taker is refused until the lease is dropped.
    ///
    /// This keeps two runs from working on a thread at once; the head check of [`put`](Self::put) keeps
    /// them from forking it even if a lease has expired.
    async fn lease(&self, thread: &str) -> Result<Lease, CheckpointError>;

    /// Stores a checkpoint, unless the namespace's head is not the expected one any more.
    ///
    /// Storing the same checkpoint twice is not an error: after a crash nobody knows whether it was stored.
    /// Another run's checkpoint of the same id means that the head has moved.
    async fn put(&self, checkpoint: NewCheckpoint) -> Result<(), CheckpointError>;

    /// Stores what happened to tasks of the step that follows a checkpoint.
    ///
    /// One record of a kind is kept for each task: a second [`Done`](Event::Done) or effect of the same
    /// key is ignored, a second record of another kind replaces the first.
    /// The checkpoint need not be stored yet.
    async fn record(&self, at: &Place, records: Vec<TaskRecord>) -> Result<(), CheckpointError>;

    /// Stores several writes of one run, in order.
    ///
    /// After a failure a part of them may be stored, from the first one on. A checkpointer that can store them at
    /// once overrides this: a step then costs one commit, and not one for each write.
    async fn write(&self, writes: Vec<Write>) -> Result<(), CheckpointError> {
        for write in writes {
            match write {
                Write::Put(checkpoint) => self.put(*checkpoint).await?,
                Write::Record(at, records) => self.record(&at, records).await?,
            }
        }
        Ok(())
    }

    /// Reads one checkpoint with its records: the addressed one, or the namespace's newest.
    async fn get(&self, at: &Lookup) -> Result<Option<Checkpoint>, CheckpointError>;

    /// Lists the checkpoints of a namespace, newest first.
    async fn list(&self, query: &History) -> Result<Vec<Checkpoint>, CheckpointError>;

    /// The threads there are, sorted.
    async fn threads(&self) -> Result<Vec<String>, CheckpointError>;

    /// The namespaces of a thread with the number of checkpoints in each, sorted.
    async fn namespaces(&self, thread: &str) -> Result<Vec<(String, usize)>, CheckpointError>;

    /// Deletes a thread with all its namespaces; an unknown thread is not an error.
    async fn delete_thread(&self, thread: &str) -> Result<(), CheckpointError>;

    /// Deletes the checkpoints that these runs wrote, in all threads.
    async fn delete_runs(&self, runs: &[String]) -> Result<(), CheckpointError>;

    /// Copies a thread with all its namespaces to a thread that does not exist yet.
    async fn copy_thread(&self, from: &str, to: &str) -> Result<(), CheckpointError>;

    /// Removes old checkpoints; never the newest of a namespace, and never what a kept one needs.
    ///
    /// A graph that was visited in a step which is gone goes with it, whole: see [`Header::outlived`].
    async fn prune(&self, threads: &[String], keep: Keep) -> Result<Pruned, CheckpointError>;
}

/// A thread taken for one run; dropping it gives the thread free.
pub struct Lease(#[expect(dead_code, reason = "held for its Drop")] Box<dyn Send + Sync>);

impl Lease {
    /// A lease that ends when the guard is dropped.
    pub fn new(guard: impl Send + Sync + 'static) -> Self {
        Self(Box::new(guard))
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lease")
    }
}

/// One checkpoint of one namespace of one thread.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    /// The thread.
    pub thread: String,
    /// The namespace: empty for the root graph, `node:task` for a subgraph.
    pub namespace: String,
    /// The checkpoint.
    pub id: CheckpointId,
}

/// Which checkpoint to read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lookup {
    /// The thread.
    pub thread: String,
    /// The namespace.
    pub namespace: String,
    /// The checkpoint; `None` for the newest.
    pub id: Option<CheckpointId>,
}

impl Lookup {
    /// The newest checkpoint of a namespace.
    pub fn head(thread: impl Into<String>, namespace: impl Into<String>) -> Self {
        Self { thread: thread.into(), namespace: namespace.into(), id: None }
    }

    /// A given checkpoint of a namespace.
    pub fn exact(
        thread: impl Into<String>,
        namespace: impl Into<String>,
        id: CheckpointId,
    ) -> Self {
        Self { thread: thread.into(), namespace: namespace.into(), id: Some(id) }
    }
}

/// Which checkpoints of a namespace to list.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct History {
    /// The thread.
    pub thread: String,
    /// The namespace.
    pub namespace: String,
    /// Only checkpoints older than this one.
    pub before: Option<CheckpointId>,
    /// Only checkpoints whose metadata holds all of these.
    pub metadata: Map<String, Value>,
    /// Only checkpoints of this source.
    pub source: Option<Source>,
    /// At most so many.
    pub limit: Option<usize>,
}

impl History {
    /// The whole history of a namespace.
    pub fn of(thread: impl Into<String>, namespace: impl Into<String>) -> Self {
        Self { thread: thread.into(), namespace: namespace.into(), ..Self::default() }
    }

    /// At most so many checkpoints.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Only checkpoints older than this one.
    #[must_use]
    pub fn before(mut self, id: CheckpointId) -> Self {
        self.before = Some(id);
        self
    }

    /// Whether a checkpoint is one of those asked for, the limit apart.
    pub fn matches(&self, id: CheckpointId, header: &Header) -> bool {
        self.before.is_none_or(|before| id < before)
            && self.source.is_none_or(|source| source == header.source)
            && self.metadata.iter().all(|(key, value)| header.metadata.get(key) == Some(value))
    }
}

/// What came to a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Source {
    /// A run's input.
    Input,
    /// A step of the loop.
    Loop,
    /// An edit of the state.
    Update,
    /// A run that went on from an older checkpoint, or a copy.
    Fork,
}

impl Source {
    /// The name as it stands in stored checkpoints.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Loop => "loop",
            Self::Update => "update",
            Self::Fork => "fork",
        }
    }
}

/// What is known of a checkpoint besides the state's fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The checkpoint it follows.
    pub parent: Option<CheckpointId>,
    /// The last checkpoint of its line that is not a step of the loop: what task ids are made from.
    pub origin: CheckpointId,
    /// The step's number: -1 for a thread's first input.
    pub step: i64,
    /// What came to it.
    pub source: Source,
    /// When it was made.
    pub created_at: SystemTime,
    /// The run that made it.
    pub run: String,
    /// The version of the state's stored form.
    pub version: u32,
    /// The checkpoints of the graphs around this one, by namespace.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parents: BTreeMap<String, CheckpointId>,
    /// What the caller wants to find it by.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

impl Header {
    /// Whether a graph that a task visited has lost the step that the task belonged to, so that nothing leads to it
    /// any more.
    ///
    /// `around` tells what the namespace of a graph around it holds: whether this checkpoint, and the newest one. A
    /// step that is newer than all that is stored is not lost: it is on its way.
    pub fn outlived<E>(
        &self,
        namespace: &str,
        mut around: impl FnMut(&str, CheckpointId) -> Result<(bool, Option<CheckpointId>), E>,
    ) -> Result<bool, E> {
        // Without a task's id in its name it belongs to the thread, and not to a visit.
        if !namespace.contains(':') {
            return Ok(false);
        }
        for (outer, id) in &self.parents {
            let (stored, newest) = around(outer, *id)?;
            if !stored && newest.is_some_and(|it| *id < it) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// A checkpoint to be stored: its header, its cursor and what changed since its base.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewCheckpoint {
    /// Where it belongs.
    pub place: Place,
    /// The namespace's head as the writer knows it; another one means that somebody else wrote.
    pub expected_head: Option<CheckpointId>,
    /// The checkpoint that `changes` are relative to; `None` for an empty state.
    pub base: Option<CheckpointId>,
    /// What is known of it besides the fields.
    pub header: Header,
    /// Where the thread stands.
    pub cursor: Cursor,
    /// What changed, field by field, in order.
    pub changes: Vec<(String, Change)>,
}

/// One of several writes to be stored in order.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Write {
    /// A checkpoint; see [`Checkpointer::put`].
    Put(Box<NewCheckpoint>),
    /// Records of tasks; see [`Checkpointer::record`].
    Record(Place, Vec<TaskRecord>),
}

impl Write {
    /// The thread it belongs to.
    pub fn thread(&self) -> &str {
        match self {
            Self::Put(checkpoint) => &checkpoint.place.thread,
            Self::Record(at, _) => &at.thread,
        }
    }
}

/// A checkpoint as read back.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Where it belongs.
    pub place: Place,
    /// What is known of it besides the fields.
    pub header: Header,
    /// Where the thread stands.
    pub cursor: Cursor,
    /// The fields that have a value.
    pub values: Map<String, Value>,
    /// What happened since to the tasks of the step that follows, in the order of their paths.
    pub records: Vec<TaskRecord>,
}

/// Where a thread stands between two steps: what is to run next, by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cursor {
    /// Counts the changes of the thread.
    pub version: u64,
    /// The version at which the thread last went past a static stop.
    pub seen: u64,
    /// The nodes that ran in the last step that ran any by an edge.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ran: Vec<String>,
    /// Nodes that an edge, a route or a command leads to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub armed: Vec<String>,
    /// Deferred nodes that wait until nothing else would run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<String>,
    /// Deferred nodes whose turn has come.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub released: Vec<String>,
    /// Joins that have seen some of their sources.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub joins: BTreeMap<String, Vec<String>>,
    /// Payloads on their way, in the order sent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sends: Vec<SendRecord>,
    /// Input that START has not taken in yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<StartRecord>,
}

/// Input on its way into the graph.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StartRecord {
    /// The fields it sets.
    pub writes: Vec<FieldWrite>,
    /// Where a command given as input goes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gotos: Vec<GotoRecord>,
}

/// A payload on its way to a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SendRecord {
    /// The node.
    pub node: String,
    /// The payload.
    pub payload: Value,
}

/// Something that happened to a task of the step that follows a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskRecord {
    /// The task; [`TaskId::COMMAND`] for a command given as input.
    pub task: TaskId,
    /// The node.
    pub node: String,
    /// What happened.
    pub event: Event,
}

/// What happened to a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// It finished: its writes, and where it goes besides its node's edges.
    Done {
        /// The fields it wrote, in order.
        writes: Vec<FieldWrite>,
        /// Where its routes and commands lead.
        gotos: Vec<GotoRecord>,
    },
    /// It failed, once its retries were used up.
    Failed {
        /// The error in words.
        error: String,
        /// Whether an error handler takes over.
        handled: bool,
    },
    /// It asks something.
    Asked {
        /// What it asks.
        interrupts: Vec<Interrupt>,
    },
    /// It was answered.
    Answered {
        /// The answers, in the order of the questions.
        answers: Vec<Value>,
    },
    /// A command was given as input: its update and its ways count from here on.
    Command {
        /// Which command: the run that gave it.
        run: String,
        /// The fields it sets.
        writes: Vec<FieldWrite>,
        /// Where it goes.
        gotos: Vec<GotoRecord>,
    },
    /// An outside call came back.
    Effect {
        /// The call's name and key.
        key: String,
        /// What it brought.
        result: Value,
    },
}

impl Event {
    /// Which slot of the task's records it takes: one record is kept in each.
    pub fn slot(&self) -> String {
        match self {
            Self::Done { .. } => "done".to_owned(),
            Self::Failed { .. } => "failed".to_owned(),
            Self::Asked { .. } => "asked".to_owned(),
            Self::Answered { .. } => "answered".to_owned(),
            Self::Command { run, .. } => format!("command:{run}"),
            Self::Effect { key, .. } => format!("effect:{key}"),
        }
    }

    /// Whether a record already in the slot stays when this one comes.
    pub fn keeps_first(&self) -> bool {
        matches!(self, Self::Done { .. } | Self::Command { .. } | Self::Effect { .. })
    }
}

/// Where a finished task goes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GotoRecord {
    /// The node.
    pub to: String,
    /// The payload, for a send.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub payload: Option<Value>,
}

/// A value that is there, though it be null: sending null is not the same as sending nothing.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// Which checkpoints [`Checkpointer::prune`] keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Keep {
    /// The newest so many of each namespace; at least one.
    Newest(usize),
    /// Those made since then, and the newest of each namespace.
    Since(SystemTime),
}

/// What [`Checkpointer::prune`] removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// How many checkpoints.
    pub checkpoints: usize,
}

/// A checkpoint that could not be stored or read.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// Another run works on the thread.
    #[error("thread `{thread}` is busy: another run works on it; wait for its end or cancel it")]
    Busy {
        /// The thread.
        thread: String,
    },
    /// Somebody else has written to the thread.
    #[error(
        "thread `{thread}` has moved on: its newest checkpoint is not the one this run started from; load it again"
    )]
    HeadMoved {
        /// The thread.
        thread: String,
    },
    /// The thread was given to another run meanwhile.
    #[error(
        "thread `{thread}` was taken over by another run, because this one was held to be dead; load it again"
    )]
    LeaseLost {
        /// The thread.
        thread: String,
    },
    /// The checkpoint is older than the newest one, so nobody would ever see it.
    #[error(
        "checkpoint {id} is not newer than the newest one of thread `{thread}`; make its id with `CheckpointId::after`"
    )]
    NotNewer {
        /// The thread.
        thread: String,
        /// The checkpoint.
        id: CheckpointId,
    },
    /// There is no such checkpoint.
    #[error("thread `{thread}` has no checkpoint {id} in namespace `{namespace}`")]
    UnknownCheckpoint {
        /// The thread.
        thread: String,
        /// The namespace.
        namespace: String,
        /// The checkpoint.
        id: CheckpointId,
    },
    /// There is no such thread.
    #[error("there is no thread `{thread}`")]
    UnknownThread {
        /// The thread.
        thread: String,
    },
    /// The thread to copy to exists already.
    #[error("thread `{thread}` exists already; delete it first or choose another name")]
    ThreadExists {
        /// The thread.
        thread: String,
    },
    /// What is stored cannot be understood.
    #[error("checkpoint {id} of thread `{thread}` is damaged: {problem}")]
    Damaged {
        /// The thread.
        thread: String,
        /// The checkpoint.
        id: CheckpointId,
        /// What is wrong.
        problem: String,
    },
    /// The storage failed.
    #[error("the checkpoint storage failed: {0}")]
    Storage(std::sync::Arc<dyn std::error::Error + Send + Sync>),
}
