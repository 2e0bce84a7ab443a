//! The messages that frames carry.

use std::{collections::BTreeMap, time::Duration};

use graph_core::{
    Durability, EventKind, Interrupt, Mode, Stop,
    checkpoint::{
        Checkpoint, CheckpointError, CheckpointId, History, Lookup, TaskId, Write as StoredWrite,
    },
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::limits::{ExceededLimit, ExecLimits, Usage};

/// The host's first message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostHello {
    /// [`VERSION`](super::VERSION).
    pub version: u32,
    /// Random; the guest says it back, which ties its answer to this start.
    pub nonce: u64,
}

/// The guest's first message, which answers the host's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestHello {
    /// [`VERSION`](super::VERSION).
    pub version: u32,
    /// The host's nonce.
    pub nonce: u64,
    /// The names of the graphs that it can run.
    pub graphs: Vec<String>,
}

/// What the host asks of the guest.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum GuestCommand {
    /// Runs a program; answered with [`ExecResult`], after what it wrote.
    Exec(Exec),
    /// Reads a file; answered with [`FileContents`].
    Read {
        /// Below the workspace.
        path: String,
        /// How many bytes are wanted at most.
        limit: u64,
    },
    /// Writes a file, and makes the folders around it.
    Write {
        /// Below the workspace.
        path: String,
        /// What it is to hold.
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
    /// Lists a folder; answered with a list of [`Entry`].
    List {
        /// Below the workspace; empty for the workspace itself.
        path: String,
    },
    /// Removes a file, or a folder with all that is in it.
    Remove {
        /// Below the workspace.
        path: String,
    },
    /// Runs a graph; answered with [`GraphOutcome`], after its events.
    Run(Box<GraphStart>),
    /// Takes new randomness and the time, as after a snapshot was restored; answered with [`ReseedResult`].
    Reseed {
        /// Random bytes.
        #[serde(with = "serde_bytes")]
        seed: Vec<u8>,
        /// The time since 1970.
        time: Duration,
    },
    /// Asks for a sign of life.
    Ping,
}

/// A program to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exec {
    /// The program: a path, or a name to be found in `/usr/local/bin:/usr/bin:/bin`.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its whole environment, but for `PATH` and `HOME`, which it gets where they are not given.
    pub env: BTreeMap<String, String>,
    /// What it reads from its standard input.
    #[serde(with = "serde_bytes")]
    pub input: Vec<u8>,
    /// What it may use.
    pub limits: ExecLimits,
}

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExecResult {
    /// Its exit code, unless a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The limit that ended it, or that it ran into.
    #[serde(rename = "cause")]
    pub exceeded_limit: Option<ExceededLimit>,
    /// What it used.
    pub usage: Usage,
}

/// The contents of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileContents {
    /// The bytes.
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
}

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: EntryKind,
    /// How many bytes a file has.
    pub size: u64,
}

/// What an entry of a folder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EntryKind {
    /// A file.
    File,
    /// A folder.
    #[serde(rename = "folder")]
    Directory,
    /// Anything else: a link, a socket, a pipe.
    Other,
}

/// What came of [`GuestCommand::Reseed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReseedResult {
    /// Whether the guest's kernel took the randomness.
    pub random: bool,
    /// Whether the guest's clock was set.
    pub clock: bool,
}

impl ReseedResult {
    /// Whether the guest took all it was given.
    pub fn is_complete(self) -> bool {
        self.random && self.clock
    }
}

/// A graph to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GraphStart {
    /// The name under which the agent knows the graph.
    pub graph: String,
    /// What it starts with.
    pub input: GraphInput,
    /// The run's id.
    pub run: String,
    /// Where its state is kept.
    pub thread: String,
    /// The checkpoint to start from, in place of the newest.
    pub at: Option<CheckpointId>,
    /// Which events are wanted.
    pub modes: Vec<Mode>,
    /// Whether events of subgraphs are wanted too.
    pub subgraphs: bool,
    /// How many steps it may take.
    pub steps: Option<u32>,
    /// How many tasks may run at once.
    pub concurrency: Option<usize>,
    /// When checkpoints are stored.
    pub durability: Durability,
    /// What its nodes can ask for with `Context::config`.
    pub config: Map<String, Value>,
    /// What is stored with each checkpoint.
    pub metadata: Map<String, Value>,
}

/// What a run starts with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum GraphInput {
    /// Fresh input: the fields it sets.
    Fields(Map<String, Value>),
    /// Nothing: the thread goes on where it stands.
    Nothing,
    /// The answer to the one question that waits.
    Answer(Value),
    /// Answers to questions, by their ids.
    Answers(BTreeMap<String, Value>),
}

/// An event of a running graph.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GraphEvent {
    /// The graph it happened in.
    pub namespace: String,
    /// The step.
    pub step: i64,
    /// The task.
    pub task: Option<TaskId>,
    /// The node.
    pub node: Option<String>,
    /// The failed task whose place this one takes.
    pub handles: Option<TaskId>,
    /// The task around the graph.
    pub outer: Option<TaskId>,
    /// What happened.
    pub kind: EventKind,
}

/// How a graph's run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum GraphOutcome {
    /// It came to its end.
    Done(Value),
    /// It asks something.
    Interrupted(Value, Vec<Interrupt>),
    /// It came to a stop.
    Stopped(Value, Stop),
    /// It failed, for this reason.
    Failed {
        /// The error in words.
        #[serde(deserialize_with = "sanitized")]
        error: String,
        /// Whether starting it again cannot help.
        terminal: bool,
    },
}

/// What the guest asks of the host, for one of its running graphs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HostCallRequest {
    /// The id of the host's question that started the run.
    pub run: u64,
    /// What is asked.
    #[serde(rename = "what")]
    pub call: HostCall,
}

/// What a running graph wants from outside.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HostCall {
    /// A call to the outside; answered with its result.
    #[serde(rename = "call")]
    External(Box<ExternalCall>),
    /// Takes the thread; answered once it is taken, and given free with the run.
    Lease,
    /// Stores checkpoints and records.
    Store(Vec<StoredWrite>),
    /// Reads a checkpoint.
    Get(Lookup),
    /// Lists checkpoints.
    List(History),
    /// Lists the thread's namespaces.
    Namespaces,
}

/// A call to the outside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExternalCall {
    /// What kind of call it is, as in `llm.chat`.
    pub kind: String,
    /// What is asked.
    pub request: Value,
    /// The call's name and key within its task, as the journal knows it.
    pub key: String,
    /// The task.
    pub task: TaskId,
    /// Its node.
    pub node: String,
    /// The namespace of its graph.
    pub namespace: String,
    /// The checkpoint that its step follows.
    pub checkpoint: CheckpointId,
}

/// The answer to [`HostCall::Get`].
pub type GetReply = Option<Checkpoint>;

/// Why something that was asked did not come about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// What kind of failure it is.
    pub code: FaultCode,
    /// What is wrong, in words.
    #[serde(deserialize_with = "sanitized")]
    pub message: String,
}

/// What kind of failure a [`Fault`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FaultCode {
    /// There is no such file, program or graph.
    NotFound,
    /// The path leads out of the workspace, or through a link.
    #[serde(rename = "path")]
    InvalidPath,
    /// It was refused.
    Refused,
    /// The storage says that another run has the thread.
    Busy,
    /// The storage says that the thread has moved on.
    HeadMoved,
    /// It failed, and trying again may help.
    Failed,
    /// It failed, and trying again does not help.
    Terminal,
}

impl Fault {
    /// A failure of this kind.
    #[expect(clippy::needless_pass_by_value, reason = "errors are given away here")]
    pub fn new(code: FaultCode, message: impl ToString) -> Self {
        Self { code, message: super::sanitize(&message.to_string()) }
    }
}

/// Reads a text that goes into errors and logs: only its beginning, and nothing that acts.
fn sanitized<'de, D: serde::Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Ok(super::sanitize(&String::deserialize(from)?))
}

impl From<CheckpointError> for Fault {
    fn from(error: CheckpointError) -> Self {
        let code = match error {
            CheckpointError::Busy { .. } => FaultCode::Busy,
            CheckpointError::HeadMoved { .. } => FaultCode::HeadMoved,
            _ => {
                // What a storage says of itself may name files and addresses of the host.
                tracing::warn!(%error, "the storage of a graph in a sandbox failed");
                return Self::new(FaultCode::Failed, "the host's storage failed; its log says why");
            }
        };
        Self::new(code, error)
    }
}
