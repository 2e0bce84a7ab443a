//! The messages that frames carry.

use std::{collections::BTreeMap, time::Duration};

use graph_core::{
    Durability, EventKind, Interrupt, StopReason, StreamMode,
    checkpoint::{
        CheckpointError, CheckpointId, CheckpointWrite as StoredWrite, HistoryQuery, Lookup, TaskId,
    },
    remote::RemoteStart,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::limits::{ExceededLimit, ExecLimits, Usage};

/// The host's first message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostHello {
    /// Protocol version: [`VERSION`](super::VERSION).
    pub version: u32,
    /// Random number that the guest must return. It ties the guest's reply to this start of the guest.
    pub nonce: u64,
}

/// The guest's first message, sent in reply to the host's first message.
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
    /// Runs a program. The program's output is sent first; then the reply is an [`ExecResult`].
    Exec(Exec),
    /// Reads a file. The reply is [`FileContents`].
    Read {
        /// Path below the workspace.
        path: String,
        /// Maximum number of bytes to return.
        limit: u64,
    },
    /// Writes a file and creates missing parent directories.
    Write {
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
    /// Runs a graph. The graph's events are sent first; then the reply is a [`GraphOutcome`].
    Run(Box<GraphStart>),
    /// Runs a graph as a subgraph of the host's run. The graph's events are sent first; then the reply is a
    /// [`RemoteOutcome`](graph_core::remote::RemoteOutcome).
    RunSubgraph(Box<SubgraphStart>),
    /// Stops a running graph at the end of its current step. The reply is empty.
    Drain {
        /// Id of the host's request that started the run.
        run: u64,
    },
    /// Refreshes the guest's random state and clock after a snapshot is restored. The reply is a [`ReseedResult`].
    Reseed {
        /// Random bytes to mix into the kernel's random state.
        #[serde(with = "serde_bytes")]
        seed: Vec<u8>,
        /// Current time, as time since the Unix epoch.
        time: Duration,
    },
    /// Requests an empty reply, to check that the guest is responsive.
    Ping,
}

/// A program to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exec {
    /// Path of the program, or a name that is looked up in `/usr/local/bin:/usr/bin:/bin`.
    pub program: String,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// Environment of the program. `PATH` and `HOME` are set by default; nothing is inherited.
    pub env: BTreeMap<String, String>,
    /// Bytes that the program can read from standard input.
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
    pub exceeded_limit: Option<ExceededLimit>,
    /// Resources that the program used.
    pub usage: Usage,
}

/// Contents of a file, the reply to [`GuestCommand::Read`].
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
    /// Size in bytes; 0 if the entry is not a regular file.
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
    /// Returns whether both the random state and the clock were set.
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
    /// Id of the thread that stores the graph's state.
    pub thread: String,
    /// Checkpoint to start from; `None` means the newest checkpoint of the thread.
    pub at: Option<CheckpointId>,
    /// Kinds of events to send.
    pub modes: Vec<StreamMode>,
    /// Whether events from subgraphs are sent too.
    pub subgraphs: bool,
    /// Maximum number of steps of the run.
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

/// A graph to run as a subgraph of the host's run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SubgraphStart {
    /// Name of the graph, as registered with the agent.
    pub graph: String,
    /// The task that runs the subgraph, and the settings of its run.
    pub start: RemoteStart,
}

/// Input of a graph run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum GraphInput {
    /// New input, given as the state fields to set.
    Fields(Map<String, Value>),
    /// No input: the run continues from the thread's current state.
    Nothing,
    /// The resume value for the only pending interrupt.
    Resume(Value),
    /// Resume values for pending interrupts, keyed by interrupt id.
    ResumeById(BTreeMap<String, Value>),
}

/// An event from a running graph.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GraphEvent {
    /// Namespace of the graph in which the event occurred.
    pub namespace: String,
    /// Step in which the event occurred.
    pub step: i64,
    /// Task that caused the event, if a task did.
    pub task: Option<TaskId>,
    /// Node that the task executes.
    pub node: Option<String>,
    /// For events of an error handler, the failed task.
    pub handled_task: Option<TaskId>,
    /// For events of a subgraph, the task that runs the subgraph. If an error handler runs the subgraph, this is the
    /// failed task.
    pub parent_task: Option<TaskId>,
    /// Content of the event.
    pub kind: EventKind,
}

/// How a graph run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum GraphOutcome {
    /// The run completed with this state.
    Done(Value),
    /// The run was interrupted and is waiting for resume values. Holds the state and the pending interrupts.
    Interrupted(Value, Vec<Interrupt>),
    /// The run stopped early. Holds the state and the reason.
    Stopped(Value, StopReason),
    /// The run failed.
    Failed {
        /// The error message.
        #[serde(deserialize_with = "sanitized")]
        error: String,
        /// Whether the failure is permanent, so that a retry cannot succeed.
        terminal: bool,
    },
}

/// A host call together with the run that makes it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HostCallRequest {
    /// Id of the host's request that started the run.
    pub run: u64,
    /// The service that the run requests.
    pub call: HostCall,
}

/// A service that a running graph requests from the host.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HostCall {
    /// Makes an external call. The reply is the call's result.
    External(Box<ExternalCall>),
    /// Acquires the thread's lease. The reply is sent once the host holds the lease. The host releases it when the run
    /// ends.
    Lease,
    /// Stores checkpoints and task records.
    Store(Vec<StoredWrite>),
    /// Loads a checkpoint.
    Get(Lookup),
    /// Lists checkpoints.
    List(HistoryQuery),
    /// Lists the thread's namespaces.
    Namespaces,
    /// Asks the host's interceptor about an external call. The reply is an
    /// [`EffectDecision`](graph_core::EffectDecision).
    BeforeCall {
        /// Path of the task that makes the call.
        task_path: String,
        /// Name and key of the call.
        key: String,
    },
    /// Reports the outcome of an external call to the host's interceptor.
    AfterCall {
        /// Path of the task that made the call.
        task_path: String,
        /// Name and key of the call.
        key: String,
        /// The result of the call, or its error.
        outcome: Result<Value, Fault>,
    },
    /// Reports that the graph makes progress, which resets the idle timeout of the node that runs it.
    Heartbeat,
}

/// A call that the host makes to an external service for the graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExternalCall {
    /// Kind of the call, for example `llm.chat`.
    pub kind: String,
    /// The request, in the format that the kind of call requires.
    pub request: Value,
    /// Key of the call within its task, as stored in the journal.
    pub key: String,
    /// Task that makes the call.
    pub task: TaskId,
    /// Node that the task executes.
    pub node: String,
    /// Namespace of the graph that the task belongs to.
    pub namespace: String,
    /// Checkpoint on which the task's step is based.
    pub checkpoint: CheckpointId,
}

/// The reason why a request was refused or failed.
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
    /// The path leads out of the workspace, or passes through a symbolic link.
    InvalidPath,
    /// The request was refused.
    Refused,
    /// The host's storage reports that another run holds the thread's lease.
    Busy,
    /// The host's storage reports that the thread has a newer checkpoint than the run expects.
    HeadMoved,
    /// The failure is temporary, so a retry may succeed.
    Failed,
    /// The failure is permanent, so a retry cannot succeed.
    Terminal,
}

impl Fault {
    /// Creates a fault of kind `code` with a sanitized copy of `message`.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "callers pass errors that they no longer need"
    )]
    pub fn new(code: FaultCode, message: impl ToString) -> Self {
        Self { code, message: super::sanitize(&message.to_string()) }
    }
}

/// Deserializes a text for errors and logs: truncates it and escapes control characters.
fn sanitized<'de, D: serde::Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Ok(super::sanitize(&String::deserialize(from)?))
}

impl From<CheckpointError> for Fault {
    fn from(error: CheckpointError) -> Self {
        let code = match error {
            CheckpointError::Busy { .. } => FaultCode::Busy,
            CheckpointError::HeadMoved { .. } => FaultCode::HeadMoved,
            _ => {
                // The storage's own message may contain host paths and addresses, so it goes only to the host's log.
                tracing::warn!(%error, "the checkpoint storage for a graph in a sandbox failed");
                return Self::new(
                    FaultCode::Failed,
                    "the host's storage failed; see the host's log",
                );
            }
        };
        Self::new(code, error)
    }
}
