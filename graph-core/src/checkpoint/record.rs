//! The stored form of the pending work and of task events.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::{checkpoint::id::TaskId, interrupt::Interrupt, state::field::FieldWrite};

/// The work that is pending in a thread between two steps. It determines the tasks that run next.
///
/// Only the engine interprets the content. A checkpointer stores and restores it with `serde`; use
/// [`ThreadState`](crate::ThreadState) to find out what runs next.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FrontierRecord {
    /// Incremented on every change to the thread.
    pub(crate) version: u64,
    /// Value of `version` when the thread was last continued. A static stop triggers only if `version` is greater, so a
    /// thread that continues after a stop does not stop again immediately.
    #[serde(rename = "seen")]
    pub(crate) resumed_version: u64,
    /// Nodes that ran in the last step because an edge, a join or a goto led to them. A step that ran only payload
    /// tasks leaves the list unchanged.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) ran: Vec<String>,
    /// Nodes that run in the next step because an edge, a route or a command leads to them.
    #[serde(rename = "armed", skip_serializing_if = "Vec::is_empty")]
    pub(crate) scheduled: Vec<String>,
    /// Deferred nodes that wait until no other node is scheduled.
    #[serde(rename = "held", skip_serializing_if = "Vec::is_empty")]
    pub(crate) deferred: Vec<String>,
    /// Deferred nodes that run in the next step.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) released: Vec<String>,
    /// For each join, the sources that have finished since the join last fired.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) joins: BTreeMap<String, Vec<String>>,
    /// Payloads to be delivered, in the order sent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) sends: Vec<SendRecord>,
    /// Input that START has not processed yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) input: Option<StartRecord>,
    /// Names of the fields' reducers when the checkpoint was stored. Fields without a reducer are left out.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) reducers: BTreeMap<String, String>,
}

/// Input that START has not processed yet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct StartRecord {
    /// The fields that the input sets.
    pub(crate) writes: Vec<FieldWrite>,
    /// Targets of an input command.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) gotos: Vec<GotoRecord>,
}

/// A payload to be delivered to a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SendRecord {
    /// Name of the node.
    pub(crate) node: String,
    /// Payload as JSON.
    pub(crate) payload: Value,
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
        /// Ids of the interrupts that were pending when the run started. Recorded only if the command contains a single
        /// answer without an interrupt id. A repetition of the run needs the ids to determine whether that answer was
        /// used.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pending: Option<Vec<String>>,
    },
    /// The task made an external call, which has returned.
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
