//! The messages that frames carry.

use std::{collections::BTreeMap, time::Duration};

use graph_core::{
    Durability, EventKind, Interrupt, StopReason, StreamMode,
    checkpoint::{
        Checkpoint, CheckpointError, CheckpointId, CheckpointWrite as StoredWrite, HistoryQuery,
        Lookup, TaskId,
    },
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::limits::{ExceededLimit, ExecLimits, Usage};

/// First message of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostHello {
    /// Protocol version: [`VERSION`](super::VERSION).
    pub version: u32,
    /// Random number that the guest returns, which ties its reply to this start.
    pub nonce: u64,
}

/// First message of the guest, in reply to the host's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestHello {
    /// Protocol version: [`VERSION`](super::VERSION).
    pub version: u32,
    /// The nonce sent by the host.
    pub nonce: u64,
    /// Names of the graphs that the guest can run.
    pub graphs: Vec<String>,
}

/// A command from the host to the guest.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum GuestCommand {
    /// Runs a program. The reply is an [`ExecResult`], after the program's output.
    Exec(Exec),
    /// Reads a file. The reply is [`FileContents`].
    Read {
        /// Path below the workspace.
        path: String,
        /// Maximum number of bytes to return.
        limit: u64,
    },
    /// Writes a file and creates missing parent directories.
    CheckpointWrite {
        /// Path below the workspace.
        path: String,
        /// New contents of the file.
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
    /// Lists a directory. The reply is a list of [`Entry`].
    List {
        /// Path below the workspace; empty for the workspace itself.
        path: String,
    },
    /// Deletes a file, or a directory with its contents.
    Remove {
        /// Path below the workspace.
        path: String,
    },
    /// Runs a graph. The reply is a [`GraphOutcome`], after the graph's events.
    Run(Box<GraphStart>),
    /// Sets new random state and the time, as after a restored snapshot. The reply is a [`ReseedResult`].
    Reseed {
        /// Random bytes.
        #[serde(with = "serde_bytes")]
        seed: Vec<u8>,
        /// Time since the Unix epoch.
        time: Duration,
    },
    /// Requests an empty reply, to check that the guest responds.
    Ping,
}

/// A program to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exec {
    /// Path of the program, or a name that is looked up in `/usr/local/bin:/usr/bin:/bin`.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Environment of the program. `PATH` and `HOME` are set by default; nothing is inherited.
    pub env: BTreeMap<String, String>,
    /// Contents of its standard input.
    #[serde(with = "serde_bytes")]
    pub input: Vec<u8>,
    /// Limits of the program.
    pub limits: ExecLimits,
}

/// Result of [`GuestCommand::Exec`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExecResult {
    /// Exit code, unless the program was killed by a signal.
    pub code: Option<i32>,
    /// Signal that killed the program.
    pub signal: Option<i32>,
    /// The limit that the program exceeded or exhausted, if any.
    #[serde(rename = "cause")]
    pub exceeded_limit: Option<ExceededLimit>,
    /// The resources it used.
    pub usage: Usage,
}

/// Contents of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileContents {
    /// The file's bytes.
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Entry {
    /// Name within the directory.
    pub name: String,
    /// Kind of the entry.
    pub kind: EntryKind,
    /// Size in bytes; 0 if it is not a regular file.
    pub size: u64,
}

/// Kind of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    #[serde(rename = "folder")]
    Directory,
    /// Anything else: a symbolic link, a socket, a pipe.
    Other,
}

/// Result of [`GuestCommand::Reseed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReseedResult {
    /// Whether the guest's kernel accepted the random bytes.
    pub random: bool,
    /// Whether the guest's clock was set.
    pub clock: bool,
}

impl ReseedResult {
    /// Returns whether both succeeded.
    pub fn is_complete(self) -> bool {
        self.random && self.clock
    }
}

/// A graph to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GraphStart {
    /// Name of the graph, as registered with the agent.
    pub graph: String,
    /// Input of the run.
    pub input: GraphInput,
    /// Id of the run.
    pub run: String,
    /// Thread that stores the graph's state.
    pub thread: String,
    /// Checkpoint to start from, instead of the newest.
    pub at: Option<CheckpointId>,
    /// Kinds of events to send.
    pub modes: Vec<StreamMode>,
    /// Whether events of subgraphs are sent too.
    pub subgraphs: bool,
    /// Maximum number of steps.
    pub steps: Option<u32>,
    /// Maximum number of tasks that run concurrently.
    pub concurrency: Option<usize>,
    /// When checkpoints are stored.
    pub durability: Durability,
    /// Values that nodes read with `Context::config`.
    pub config: Map<String, Value>,
    /// Metadata stored with each checkpoint.
    pub metadata: Map<String, Value>,
}

/// Input of a graph run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum GraphInput {
    /// New input: the fields it sets.
    Fields(Map<String, Value>),
    /// No input: the run continues from the thread's current state.
    Nothing,
    /// The value for the only pending interrupt.
    #[serde(rename = "answer")]
    Resume(Value),
    /// Values for pending interrupts, by interrupt id.
    #[serde(rename = "answers")]
    ResumeById(BTreeMap<String, Value>),
}

/// An event of a running graph.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GraphEvent {
    /// Namespace of the graph in which it happened.
    pub namespace: String,
    /// Step in which it happened.
    pub step: i64,
    /// Task that caused it.
    pub task: Option<TaskId>,
    /// Node of the task.
    pub node: Option<String>,
    /// The failed task that this task handles.
    #[serde(rename = "handles")]
    pub handled_task: Option<TaskId>,
    /// The task of the parent graph that runs this graph.
    #[serde(rename = "outer")]
    pub parent_task: Option<TaskId>,
    /// What happened.
    pub kind: EventKind,
}

/// How a graph run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum GraphOutcome {
    /// It completed, with this state.
    Done(Value),
    /// It was interrupted and waits for values.
    Interrupted(Value, Vec<Interrupt>),
    /// It stopped early, for this reason.
    Stopped(Value, StopReason),
    /// It failed.
    Failed {
        /// The error message.
        #[serde(deserialize_with = "sanitized")]
        error: String,
        /// Whether the failure is permanent: a retry cannot succeed.
        terminal: bool,
    },
}

/// A host call, made by one of the guest's running graphs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HostCallRequest {
    /// Id of the host's request that started the run.
    pub run: u64,
    /// The call.
    #[serde(rename = "what")]
    pub call: HostCall,
}

/// A service that a running graph requests from the host.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HostCall {
    /// Makes an external call. The reply is its result.
    #[serde(rename = "call")]
    External(Box<ExternalCall>),
    /// Acquires the thread's lease. The reply comes once it is held; it is released when the run ends.
    Lease,
    /// Stores checkpoints and task records.
    Store(Vec<StoredWrite>),
    /// Loads a checkpoint.
    Get(Lookup),
    /// Lists checkpoints.
    List(HistoryQuery),
    /// Lists the thread's namespaces.
    Namespaces,
}

/// An external call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExternalCall {
    /// Kind of the call, for example `llm.chat`.
    pub kind: String,
    /// The request, in the format of the call's kind.
    pub request: Value,
    /// Key of the call within its task, as stored in the journal.
    pub key: String,
    /// Task that makes the call.
    pub task: TaskId,
    /// Node of the task.
    pub node: String,
    /// Namespace of the task's graph.
    pub namespace: String,
    /// Checkpoint on which the task's step is based.
    pub checkpoint: CheckpointId,
}

/// Reply to [`HostCall::Get`].
pub type GetReply = Option<Checkpoint>;

/// A request that was refused or failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Kind of the failure.
    pub code: FaultCode,
    /// The error message.
    #[serde(deserialize_with = "sanitized")]
    pub message: String,
}

/// Kind of a [`Fault`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FaultCode {
    /// The file, program or graph does not exist.
    NotFound,
    /// The path leads out of the workspace, or through a symbolic link.
    #[serde(rename = "path")]
    InvalidPath,
    /// The request was refused.
    Refused,
    /// The storage reports that another run holds the thread.
    Busy,
    /// The storage reports that the thread has a newer checkpoint.
    HeadMoved,
    /// A temporary failure: a retry may succeed.
    Failed,
    /// A permanent failure: a retry cannot succeed.
    Terminal,
}

impl Fault {
    /// Creates a fault of this kind. The message is sanitized.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "callers pass errors that they no longer need"
    )]
    pub fn new(code: FaultCode, message: impl ToString) -> Self {
        Self { code, message: super::sanitize(&message.to_string()) }
    }
}

/// Deserializes a text that is shown in errors and logs, truncated and with control characters escaped.
fn sanitized<'de, D: serde::Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Ok(super::sanitize(&String::deserialize(from)?))
}

impl From<CheckpointError> for Fault {
    fn from(error: CheckpointError) -> Self {
        let code = match error {
            CheckpointError::Busy { .. } => FaultCode::Busy,
            CheckpointError::HeadMoved { .. } => FaultCode::HeadMoved,
            _ => {
                // The storage's own message may name files and addresses of the host, so it stays in the host's log.
                tracing::warn!(%error, "storage of a graph in a sandbox failed");
                return Self::new(
                    FaultCode::Failed,
                    "the host's storage failed; see the host's log",
                );
            }
        };
        Self::new(code, error)
    }
}
