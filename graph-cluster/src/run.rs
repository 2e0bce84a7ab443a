//! Runs as clients see them.

use std::time::Duration;

use graph_core::{Interrupt, RunError, StreamMode, checkpoint::CheckpointId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    error::ClusterError, failure::FailureKind, run_command::RunCommand, run_settings::RunSettings,
    run_status::RunStatus,
};

/// Maximum length of run ids, thread names and graph names, in bytes. Ids are part of notifications, which PostgreSQL
/// limits to 8000 bytes.
const MAX_NAME_BYTES: usize = 512;

/// A request to run a graph on a thread.
///
/// ```
/// use graph_cluster::StartRun;
/// use serde_json::json;
///
/// let request = StartRun::new("run-7", "essay", "thread-7").input("topic", json!("tea"));
/// # let _ = request;
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[must_use]
pub struct StartRun {
    /// Id of the run. Starting a run twice with the same id and the same request has no further effect.
    #[serde(skip)]
    pub id: String,
    /// Name under which workers have registered the graph.
    pub graph: String,
    /// Name of the thread.
    pub thread: String,
    /// Fields of the graph's state that the run sets.
    pub input: Map<String, Value>,
    /// Command that the run executes instead of setting fields and starting at START.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<RunCommand>,
    /// Checkpoint of the thread from which the run starts; the run then creates a new branch. `None` selects the
    /// newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<CheckpointId>,
    /// Settings that replace those of the graph.
    #[serde(default, skip_serializing_if = "RunSettings::is_default")]
    pub settings: RunSettings,
    /// Delay before the run may start.
    #[serde(default, skip_serializing_if = "Duration::is_zero")]
    pub delay: Duration,
    /// Kinds of events that are stored for readers.
    pub stream_modes: Vec<StreamMode>,
    /// Data of the run for the dependencies of the nodes, such as settings.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub context: Value,
    /// Tenant on whose behalf the run executes: see [`Client::limit_tenant`](crate::Client::limit_tenant).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// W3C trace context of the caller, for [`Worker::trace_parent`](crate::Worker::trace_parent). It does not identify
    /// the request.
    #[serde(skip)]
    pub trace_parent: Option<String>,
}

impl StartRun {
    /// Creates a request without input, whose updates, custom values and messages are streamed.
    pub fn new(id: impl Into<String>, graph: impl Into<String>, thread: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            graph: graph.into(),
            thread: thread.into(),
            input: Map::new(),
            command: None,
            checkpoint: None,
            settings: RunSettings::default(),
            delay: Duration::ZERO,
            stream_modes: vec![StreamMode::Updates, StreamMode::Custom, StreamMode::Messages],
            context: Value::Null,
            tenant: None,
            trace_parent: None,
        }
    }

    /// Sets a field of the graph's state.
    pub fn input(mut self, field: impl Into<String>, value: impl Into<Value>) -> Self {
        self.input.insert(field.into(), value.into());
        self
    }

    /// Executes a command instead of setting fields and starting at START.
    pub fn command(mut self, command: RunCommand) -> Self {
        self.command = Some(command);
        self
    }

    /// Starts from an earlier checkpoint of the thread instead of the newest one. The run creates a new branch. With
    /// input, it sets fields and starts at START. To repeat the nodes that followed the checkpoint, add an empty
    /// [`command`](Self::command).
    ///
    /// ```
    /// use graph_cluster::{RunCommand, StartRun};
    /// use graph_core::checkpoint::CheckpointId;
    ///
    /// fn repeat_from(checkpoint: CheckpointId) -> StartRun {
    ///     StartRun::new("run-8", "essay", "thread-7").checkpoint(checkpoint).command(RunCommand::new())
    /// }
    /// ```
    pub fn checkpoint(mut self, checkpoint: CheckpointId) -> Self {
        self.checkpoint = Some(checkpoint);
        self
    }

    /// Sets limits, stops, metadata and configuration values of the run.
    pub fn settings(mut self, settings: RunSettings) -> Self {
        self.settings = settings;
        self
    }

    /// Delays the start of the run by this time. No process waits in the meantime, and other runs of the thread can
    /// start.
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Selects the kinds of events that are stored for readers.
    pub fn stream_modes(mut self, modes: impl IntoIterator<Item = StreamMode>) -> Self {
        self.stream_modes = modes.into_iter().collect();
        self
    }

    /// Sets the data from which [`RegisteredGraph::with_context`](crate::RegisteredGraph::with_context) creates the
    /// dependencies of the nodes. It is stored in the database, so it must not contain secrets.
    pub fn context(mut self, context: impl Into<Value>) -> Self {
        self.context = context.into();
        self
    }

    /// Sets the tenant on whose behalf the run executes.
    pub fn tenant(mut self, tenant: impl Into<String>) -> Self {
        self.tenant = Some(tenant.into());
        self
    }

    /// Sets the trace context of the caller, in the format of the HTTP header `traceparent`.
    pub fn trace_parent(mut self, trace_parent: impl Into<String>) -> Self {
        self.trace_parent = Some(trace_parent.into());
        self
    }

    pub(crate) fn check(&self) -> Result<(), ClusterError> {
        check_name("run id", &self.id)?;
        check_name("graph name", &self.graph)?;
        check_name("thread name", &self.thread)?;
        self.tenant.iter().try_for_each(|it| check_name("tenant name", it))?;
        match self.command.is_some() && !self.input.is_empty() {
            true => Err(ClusterError::InputAndCommand(self.id.clone())),
            false => Ok(()),
        }
    }
}

pub(crate) fn check_name(what: &'static str, value: &str) -> Result<(), ClusterError> {
    if value.is_empty() || value.len() > MAX_NAME_BYTES || value.chars().any(char::is_control) {
        let shortened = value.chars().filter(|it| !it.is_control()).take(60).collect();
        return Err(ClusterError::InvalidName { what, value: shortened, max: MAX_NAME_BYTES });
    }
    Ok(())
}

/// A run and its result so far.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunInfo {
    /// Id of the run.
    pub id: String,
    /// Name of the graph.
    pub graph: String,
    /// Version of the graph that the run stays on. `None` if no worker has started the run, and empty if the graph has
    /// no version.
    pub version: Option<String>,
    /// Name of the thread.
    pub thread: String,
    /// Status of the run.
    pub status: RunStatus,
    /// Number of the run in the order in which the runs of the cluster were started. Numbers are never reused.
    pub number: i64,
    /// Number of times that the run was resumed.
    pub leg: i32,
    /// Number of times that a worker claimed the run. Each resume and each recovery adds one.
    pub claims: i64,
    /// Worker that executes the run, if it is running.
    pub worker: Option<String>,
    /// Result of the last leg.
    pub outcome: RunResult,
}

/// Result of the last leg of a run. See the [terms](crate#terms).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunResult {
    /// Fields of the thread's state when the leg ended. Empty if the leg failed, was cancelled or has not ended.
    pub values: Map<String, Value>,
    /// Interrupts that wait for an answer from a client. Excludes those of [`sleep`](crate::sleep()).
    pub interrupts: Vec<Interrupt>,
    /// Error message of a failed run.
    pub error: Option<String>,
    /// Kind of the error of a failed run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureKind>,
    /// Error message of the node, if a node failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_error: Option<String>,
    /// The newest checkpoint of the thread when the run was last interrupted or stopped, if the run has a command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<CheckpointId>,
}

impl RunResult {
    /// Creates the result of a run that failed.
    pub(crate) fn failed(error: &RunError) -> Self {
        let node_error = match error {
            RunError::Node { error, .. } => Some(error.to_string()),
            _ => None,
        };
        Self {
            error: Some(error.to_string()),
            failure: Some(FailureKind::of(error)),
            node_error,
            ..Self::default()
        }
    }
}

/// Identifies one leg of a run to a scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    /// Id of the run.
    pub run: String,
    /// Name of the thread. Only one run per thread may execute at a time.
    pub thread: String,
    /// Number of the run. Distinguishes the run from a deleted one with the same id.
    #[serde(default)]
    pub number: i64,
    /// Number of times that the run was resumed.
    pub leg: i32,
    /// Number of claims of the run before this submission. Submissions with the same number are duplicates. If a worker
    /// dies, the leg is submitted again with a greater number.
    #[serde(default)]
    pub claims: i64,
    /// Delay before the leg may start.
    #[serde(default, skip_serializing_if = "Duration::is_zero")]
    pub delay: Duration,
}
