//! Checkpoints, as they are written and read.

use std::{collections::BTreeMap, time::SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    checkpoint::{
        id::CheckpointId,
        record::{FrontierRecord, TaskRecord},
    },
    state::change::Change,
};

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
    /// Id of the newest checkpoint that was not created by a superstep, among this checkpoint and its ancestors. Task
    /// ids are derived from it.
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

/// A write to be stored by [`Checkpointer::write`](crate::Checkpointer::write).
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointWrite {
    /// A checkpoint; see [`Checkpointer::put`](crate::Checkpointer::put).
    Put(Box<NewCheckpoint>),
    /// Records of tasks; see [`Checkpointer::record`](crate::Checkpointer::record).
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
