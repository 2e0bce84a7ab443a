//! Checkpoints, and the trait [`Checkpointer`], which stores them. A checkpoint is a snapshot of a thread after a step.
//!
//! A checkpoint is written as a [`NewCheckpoint`], which contains only the changes since its base, and read back as a
//! complete [`Checkpoint`]. How the changes are stored is up to the checkpointer.

mod change;
mod id;
mod memory;

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
/// Implementations should pass the conformance suite in the crate `checkpoint-testkit`. All methods may be called
/// concurrently.
#[async_trait]
pub trait Checkpointer: Send + Sync + fmt::Debug {
    /// Leases the thread to one run. Fails with [`CheckpointError::Busy`] while an earlier lease on the thread is held.
    ///
    /// The lease prevents two runs from working on a thread concurrently. The head check in [`put`](Self::put) keeps
    /// two runs from forking the thread even if a lease has expired.
    async fn lease(&self, thread: &str) -> Result<Lease, CheckpointError>;

    /// Stores a checkpoint. Fails with [`CheckpointError::HeadMoved`] if the namespace's head (its newest checkpoint)
    /// differs from [`NewCheckpoint::expected_head`].
    ///
    /// The method is idempotent: storing the same checkpoint again succeeds, because after a crash the caller cannot
    /// know whether the checkpoint was stored. If another run has stored a checkpoint with the same id, the method
    /// fails with `HeadMoved`.
    async fn put(&self, checkpoint: NewCheckpoint) -> Result<(), CheckpointError>;

    /// Stores records for tasks of the step that follows a checkpoint.
    ///
    /// Each task keeps one record per [slot](TaskEvent::slot). A second [`Done`](TaskEvent::Done), a second command of
    /// a run or a second effect with the same key is ignored. Any other record replaces the earlier record in its
    /// slot. Records may be stored before their checkpoint.
    async fn record(
        &self,
        at: &CheckpointKey,
        records: Vec<TaskRecord>,
    ) -> Result<(), CheckpointError>;

    /// Stores several writes of one run, in order.
    ///
    /// If this method fails, a prefix of the writes may have been stored. Override this method if the storage can
    /// commit several writes at once. A step then costs one commit instead of one per write.
    async fn write(&self, writes: Vec<CheckpointWrite>) -> Result<(), CheckpointError> {
        for write in writes {
            match write {
                CheckpointWrite::Put(checkpoint) => self.put(*checkpoint).await?,
                CheckpointWrite::Record(at, records) => self.record(&at, records).await?,
            }
        }
        Ok(())
    }

    /// Reads a checkpoint with its records. If `at` contains no id, reads the newest checkpoint in the namespace.
    async fn get(&self, at: &Lookup) -> Result<Option<Checkpoint>, CheckpointError>;

    /// Lists the checkpoints of a namespace, newest first.
    async fn list(&self, query: &HistoryQuery) -> Result<Vec<Checkpoint>, CheckpointError>;

    /// Lists the names of all threads, sorted.
    async fn threads(&self) -> Result<Vec<String>, CheckpointError>;

    /// Lists the namespaces of a thread with the number of checkpoints in each, sorted.
    async fn namespaces(&self, thread: &str) -> Result<Vec<(String, usize)>, CheckpointError>;

    /// Deletes a thread with all its namespaces. Does nothing if the thread does not exist.
    async fn delete_thread(&self, thread: &str) -> Result<(), CheckpointError>;

    /// Deletes all checkpoints written by these runs, in all threads.
    async fn delete_runs(&self, runs: &[String]) -> Result<(), CheckpointError>;

    /// Copies a thread with all its namespaces to a new thread.
    async fn copy_thread(&self, from: &str, to: &str) -> Result<(), CheckpointError>;

    /// Deletes old checkpoints of these threads. Keeps the newest checkpoint in each namespace and all data that the
    /// remaining checkpoints need.
    ///
    /// Deleting a step also deletes the namespaces of the subgraph invocations that belong to the step: see
    /// [`Header::is_orphaned`].
    async fn prune(&self, threads: &[String], keep: Keep) -> Result<PruneStats, CheckpointError>;
}

/// A lease on a thread. Dropping it releases the thread.
pub struct Lease(#[expect(dead_code, reason = "kept for its Drop")] Box<dyn Send + Sync>);

impl Lease {
    /// Creates a lease that is released when `guard` is dropped.
    pub fn new(guard: impl Send + Sync + 'static) -> Self {
        Self(Box::new(guard))
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lease")
    }
}

/// Identifies a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CheckpointKey {
    /// Name of the thread.
    pub thread: String,
    /// Namespace of the graph: empty for the top-level graph, `node:task` for a subgraph.
    pub namespace: String,
    /// Id of the checkpoint.
    pub id: CheckpointId,
}

/// Selects a checkpoint to read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lookup {
    /// Name of the thread.
    pub thread: String,
    /// Namespace of the graph.
    pub namespace: String,
    /// Id of the checkpoint. `None` selects the newest one.
    pub id: Option<CheckpointId>,
}

impl Lookup {
    /// Selects the newest checkpoint in a namespace.
    pub fn head(thread: impl Into<String>, namespace: impl Into<String>) -> Self {
        Self { thread: thread.into(), namespace: namespace.into(), id: None }
    }

    /// Selects a checkpoint by id.
    pub fn exact(
        thread: impl Into<String>,
        namespace: impl Into<String>,
        id: CheckpointId,
    ) -> Self {
        Self { thread: thread.into(), namespace: namespace.into(), id: Some(id) }
    }
}

/// Selects checkpoints of a namespace to list.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct HistoryQuery {
    /// Name of the thread.
    pub thread: String,
    /// Namespace of the graph.
    pub namespace: String,
    /// If set, selects only checkpoints older than this one.
    pub before: Option<CheckpointId>,
    /// Selects only checkpoints whose metadata contains all of these entries.
    pub metadata: Map<String, Value>,
    /// If set, selects only checkpoints with this source.
    pub source: Option<Source>,
    /// Maximum number of checkpoints.
    pub limit: Option<usize>,
}

impl HistoryQuery {
    /// Selects the whole history of a namespace.
    pub fn new(thread: impl Into<String>, namespace: impl Into<String>) -> Self {
        Self { thread: thread.into(), namespace: namespace.into(), ..Self::default() }
    }

    /// Limits the number of checkpoints.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Selects only checkpoints older than this one.
    #[must_use]
    pub fn before(mut self, id: CheckpointId) -> Self {
        self.before = Some(id);
        self
    }

    /// Returns whether a checkpoint matches the filters. Ignores `limit`.
    pub fn matches(&self, id: CheckpointId, header: &Header) -> bool {
        self.before.is_none_or(|before| id < before)
            && self.source.is_none_or(|source| source == header.source)
            && self.metadata.iter().all(|(key, value)| header.metadata.get(key) == Some(value))
    }
}

/// What created a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Source {
    /// The input of a run.
    Input,
    /// A superstep.
    Loop,
    /// An edit of the state.
    Update,
    /// A run that continued from an older checkpoint, or a copy of a checkpoint.
    Fork,
}

impl Source {
    /// Returns the name used in stored checkpoints.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Loop => "loop",
            Self::Update => "update",
            Self::Fork => "fork",
        }
    }
}

/// Description of a checkpoint, without the state itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Id of the parent checkpoint.
    pub parent: Option<CheckpointId>,
    /// Among this checkpoint and its ancestors, the newest one not created by a superstep. Task ids are derived from
    /// it.
    pub origin: CheckpointId,
    /// Number of the step. The first input of a thread is step -1.
    pub step: i64,
    /// What created the checkpoint.
    pub source: Source,
    /// When the checkpoint was created.
    pub created_at: SystemTime,
    /// Id of the run that created the checkpoint.
    pub run: String,
    /// Version of the state type.
    pub version: u32,
    /// Current checkpoint of each enclosing graph, by namespace. Empty for a top-level graph.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parents: BTreeMap<String, CheckpointId>,
    /// Metadata from the run's options.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

impl Header {
    /// Returns whether the checkpoint is orphaned. An orphaned checkpoint belongs to a subgraph invocation, and the
    /// step that invoked the subgraph has been deleted.
    ///
    /// `enclosing` looks up a checkpoint of an enclosing graph. It returns whether that checkpoint is stored, and the
    /// newest stored checkpoint in the same namespace. A missing checkpoint counts as deleted only if it is older than
    /// the newest one. Otherwise it has not been stored yet.
    pub fn is_orphaned<E>(
        &self,
        namespace: &str,
        mut enclosing: impl FnMut(&str, CheckpointId) -> Result<(bool, Option<CheckpointId>), E>,
    ) -> Result<bool, E> {
        // A namespace without a task id belongs to the thread, not to an invocation.
        if !namespace.contains(':') {
            return Ok(false);
        }
        for (outer, id) in &self.parents {
            let (stored, newest) = enclosing(outer, *id)?;
            if !stored && newest.is_some_and(|it| *id < it) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// A checkpoint to be stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewCheckpoint {
    /// Identifies the checkpoint.
    #[serde(rename = "place")]
    pub key: CheckpointKey,
    /// Head of the namespace as the writer knows it. A different head means that another run has written to the
    /// thread.
    pub expected_head: Option<CheckpointId>,
    /// Checkpoint that `changes` are relative to. `None` means that they are relative to an empty state.
    pub base: Option<CheckpointId>,
    /// Description of the checkpoint.
    pub header: Header,
    /// Pending work, which determines the tasks that run next.
    #[serde(rename = "cursor")]
    pub frontier: FrontierRecord,
    /// Changes to fields, in the order in which they are applied.
    pub changes: Vec<(String, Change)>,
}

/// A write to be stored by [`Checkpointer::write`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointWrite {
    /// A checkpoint; see [`Checkpointer::put`].
    Put(Box<NewCheckpoint>),
    /// Records of tasks; see [`Checkpointer::record`].
    Record(CheckpointKey, Vec<TaskRecord>),
}

impl CheckpointWrite {
    /// Returns the thread that the write belongs to.
    pub fn thread(&self) -> &str {
        match self {
            Self::Put(checkpoint) => &checkpoint.key.thread,
            Self::Record(at, _) => &at.thread,
        }
    }
}

/// A stored checkpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Identifies the checkpoint.
    #[serde(rename = "place")]
    pub key: CheckpointKey,
    /// Description of the checkpoint.
    pub header: Header,
    /// Pending work, which determines the tasks that run next.
    #[serde(rename = "cursor")]
    pub frontier: FrontierRecord,
    /// Fields that have a value.
    pub values: Map<String, Value>,
    /// Records of the tasks of the following step, in the order recorded.
    pub records: Vec<TaskRecord>,
}

/// The work that is pending in a thread between two steps. It determines the tasks that run next. Nodes are stored by
/// name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FrontierRecord {
    /// Incremented on every change to the thread.
    pub version: u64,
    /// Value of `version` when the thread was last continued. A static stop triggers only if `version` is greater.
    #[serde(rename = "seen")]
    pub resumed_version: u64,
    /// Nodes that ran in the last step because an edge, a join or a goto led to them. A step that ran only payload
    /// tasks leaves the list unchanged.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ran: Vec<String>,
    /// Nodes that run in the next step because an edge, a route or a command leads to them.
    #[serde(rename = "armed", skip_serializing_if = "Vec::is_empty")]
    pub scheduled: Vec<String>,
    /// Deferred nodes that wait until no other node is scheduled.
    #[serde(rename = "held", skip_serializing_if = "Vec::is_empty")]
    pub deferred: Vec<String>,
    /// Deferred nodes that run in the next step.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub released: Vec<String>,
    /// For each join, the sources that have finished since the join last fired.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub joins: BTreeMap<String, Vec<String>>,
    /// Payloads to be delivered, in the order sent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sends: Vec<SendRecord>,
    /// Input that START has not processed yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<StartRecord>,
}

/// Input that START has not processed yet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StartRecord {
    /// The fields that the input sets.
    pub writes: Vec<FieldWrite>,
    /// Targets of an input command.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gotos: Vec<GotoRecord>,
}

/// A payload to be delivered to a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SendRecord {
    /// Name of the node.
    pub node: String,
    /// Payload as JSON.
    pub payload: Value,
}

/// A recorded event of a task. The task belongs to the step that follows a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskRecord {
    /// Id of the task, or [`TaskId::COMMAND`] for an input command.
    pub task: TaskId,
    /// Name of the node.
    pub node: String,
    /// The recorded event.
    pub event: TaskEvent,
}

/// A task event that is recorded with a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TaskEvent {
    /// The task finished.
    Done {
        /// The task's writes, in order.
        writes: Vec<FieldWrite>,
        /// Targets that the task's routes and commands chose, in addition to the node's edges.
        gotos: Vec<GotoRecord>,
    },
    /// The task failed and will not be retried.
    Failed {
        /// Error message.
        error: String,
        /// Whether the node's error handler takes over.
        handled: bool,
    },
    /// The task raised interrupts.
    #[serde(rename = "asked")]
    Interrupted {
        /// The interrupts that the task raised.
        interrupts: Vec<Interrupt>,
    },
    /// The task received resume values.
    #[serde(rename = "answered")]
    Resumed {
        /// The resume values, in the order of the interrupts.
        #[serde(rename = "answers")]
        values: Vec<Value>,
    },
    /// A run started with a command as input. The command's writes and targets apply to this checkpoint.
    Command {
        /// Id of the run.
        run: String,
        /// The fields that the command sets.
        writes: Vec<FieldWrite>,
        /// Targets of the command.
        gotos: Vec<GotoRecord>,
    },
    /// An external call made by the task returned.
    Effect {
        /// Name and key of the call.
        key: String,
        /// Result of the call.
        result: Value,
    },
}

impl TaskEvent {
    /// Returns the name of the slot in which the event is recorded. Each task keeps one record per slot.
    pub fn slot(&self) -> String {
        match self {
            Self::Done { .. } => "done".to_owned(),
            Self::Failed { .. } => "failed".to_owned(),
            Self::Interrupted { .. } => "asked".to_owned(),
            Self::Resumed { .. } => "answered".to_owned(),
            Self::Command { run, .. } => format!("command:{run}"),
            Self::Effect { key, .. } => format!("effect:{key}"),
        }
    }

    /// Returns whether an earlier record in the same slot is kept instead of this one.
    pub fn keeps_first(&self) -> bool {
        matches!(self, Self::Done { .. } | Self::Command { .. } | Self::Effect { .. })
    }
}

/// A stored target of a task or command: a node and, optionally, a payload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GotoRecord {
    /// Name of the node.
    pub to: String,
    /// The payload, if one is sent.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "deserialize_present"
    )]
    pub payload: Option<Value>,
}

/// Deserialises a payload. Keeps a `null` payload distinct from a missing one.
fn deserialize_present<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// Which checkpoints [`Checkpointer::prune`] keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Keep {
    /// The newest `n` checkpoints in each namespace, but at least one.
    Newest(usize),
    /// Checkpoints created at or after this time, and the newest one in each namespace.
    Since(SystemTime),
}

/// The amount of data that [`Checkpointer::prune`] deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PruneStats {
    /// Number of deleted checkpoints.
    pub checkpoints: usize,
}

/// An error returned by a checkpointer.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// Another run holds the lease on the thread.
    #[error(
        "thread `{thread}` is busy: another run holds its lease; wait for that run or cancel it"
    )]
    Busy {
        /// Name of the thread.
        thread: String,
    },
    /// Another run has added a checkpoint to the thread.
    #[error(
        "cannot write to thread `{thread}`: another run has added a checkpoint; reload the thread and try again"
    )]
    HeadMoved {
        /// Name of the thread.
        thread: String,
    },
    /// The lease expired and was taken by another run.
    #[error(
        "cannot write to thread `{thread}`: its lease expired and was taken by another run; reload the thread and try again"
    )]
    LeaseLost {
        /// Name of the thread.
        thread: String,
    },
    /// The checkpoint is older than the head, so it could never become the head.
    #[error(
        "checkpoint {id} is older than the newest checkpoint of thread `{thread}`; create its id with `CheckpointId::after`"
    )]
    NotNewer {
        /// Name of the thread.
        thread: String,
        /// Id of the checkpoint.
        id: CheckpointId,
    },
    /// The checkpoint does not exist.
    #[error("thread `{thread}` has no checkpoint {id} in namespace `{namespace}`")]
    UnknownCheckpoint {
        /// Name of the thread.
        thread: String,
        /// Namespace of the graph.
        namespace: String,
        /// Id of the checkpoint.
        id: CheckpointId,
    },
    /// The thread does not exist.
    #[error("thread `{thread}` does not exist")]
    UnknownThread {
        /// Name of the thread.
        thread: String,
    },
    /// The target of a copy already exists.
    #[error("thread `{thread}` already exists; delete it or choose another name")]
    ThreadExists {
        /// Name of the thread.
        thread: String,
    },
    /// The stored data is invalid.
    #[error("checkpoint {id} of thread `{thread}` is corrupt: {problem}")]
    Corrupt {
        /// Name of the thread.
        thread: String,
        /// Id of the checkpoint.
        id: CheckpointId,
        /// Description of the invalid data.
        problem: String,
    },
    /// The storage failed.
    #[error("the checkpoint storage failed: {0}")]
    Storage(std::sync::Arc<dyn std::error::Error + Send + Sync>),
}
