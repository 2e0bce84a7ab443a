//! The body of requests that create a run, and the part of it that is stored with the run.

use graph_core::{Durability, Stops};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    body::or_default,
    checkpoint::CheckpointRef,
    command::Command,
    config::{Config, Metadata},
    mode::{Mode, default_modes, modes},
};
use crate::langgraph::{
    error::{ApiError, ApiResult},
    id::wire_id,
    position::Position,
};

/// A request to create a run.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::langgraph) struct RunCreate {
    pub(in crate::langgraph) assistant_id: String,
    /// The JavaScript client repeats the assistant under this name in batches.
    #[serde(default, rename = "assistantId")]
    repeated_assistant_id: Option<String>,
    /// Ignored if the request has a command, as on LangGraph's server: chat clients send their state with every answer.
    input: Option<Value>,
    command: Option<Command>,
    #[serde(default = "default_modes", deserialize_with = "modes")]
    stream_mode: Vec<Mode>,
    #[serde(default, deserialize_with = "or_default")]
    stream_subgraphs: bool,
    /// Whether clients can resume the stream after a restart of the server. If false, they can resume it only until the
    /// server restarts.
    #[serde(default, deserialize_with = "or_default")]
    stream_resumable: bool,
    #[serde(default, deserialize_with = "or_default")]
    pub(in crate::langgraph) config: Config,
    pub(in crate::langgraph) context: Option<Map<String, Value>>,
    #[serde(default, deserialize_with = "or_default")]
    pub(in crate::langgraph) metadata: Metadata,
    interrupt_before: Option<Breakpoints>,
    interrupt_after: Option<Breakpoints>,
    webhook: Option<String>,
    checkpoint: Option<CheckpointRef>,
    checkpoint_id: Option<String>,
    checkpoint_during: Option<bool>,
    #[serde(default, deserialize_with = "or_default")]
    pub(in crate::langgraph) multitask_strategy: MultitaskStrategy,
    #[serde(default, deserialize_with = "or_default")]
    pub(in crate::langgraph) if_not_exists: IfNotExists,
    #[serde(default, deserialize_with = "or_default")]
    pub(in crate::langgraph) on_disconnect: OnDisconnect,
    on_completion: Option<OnCompletion>,
    after_seconds: Option<f64>,
    durability: Option<RunDurability>,
    /// Accepted but ignored: on this server, a resume value for an unknown interrupt always fails the run.
    #[serde(default)]
    #[expect(dead_code, reason = "every value has the same effect")]
    strict_resume: Option<bool>,
    /// Only an empty list and null are accepted, because this server has no feedback service.
    #[serde(default, deserialize_with = "or_default")]
    feedback_keys: Vec<String>,
}

/// Nodes before or after which a run stops: `"*"` or a list of names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "`interrupt_before` and `interrupt_after` must be \"*\" or a list of node names"
)]
pub(in crate::langgraph) enum Breakpoints {
    At(Vec<String>),
    All(AllNodes),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::langgraph) enum AllNodes {
    #[serde(rename = "*")]
    All,
}

impl Breakpoints {
    pub(in crate::langgraph) fn stops(&self) -> Stops {
        match self {
            Self::All(_) => Stops::All,
            Self::At(nodes) => Stops::at(nodes.iter().cloned()),
        }
    }
}

/// Handling of the active runs of a thread when another run is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::langgraph) enum MultitaskStrategy {
    /// The new run is rejected.
    Reject,
    /// The new run starts when the active ones have ended.
    #[default]
    Enqueue,
    /// The active runs are cancelled. Their progress is kept.
    Interrupt,
    /// The active runs are cancelled, and their checkpoints are deleted.
    Rollback,
}

/// Handling of a new run whose thread does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::langgraph) enum IfNotExists {
    Create,
    #[default]
    Reject,
}

/// Handling of a run when the client that started it disconnects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::langgraph) enum OnDisconnect {
    Cancel,
    #[default]
    Continue,
}

/// Handling of the thread of a stateless run when the run has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::langgraph) enum OnCompletion {
    Delete,
    Keep,
}

/// When checkpoints are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::langgraph) enum RunDurability {
    Sync,
    #[default]
    Async,
    Exit,
}

impl From<RunDurability> for Durability {
    fn from(durability: RunDurability) -> Self {
        match durability {
            RunDurability::Sync => Self::Sync,
            RunDurability::Async => Self::Async,
            RunDurability::Exit => Self::Exit,
        }
    }
}

/// The parameters of a run, as they are stored with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::langgraph) struct RunKwargs {
    pub(in crate::langgraph) graph_id: String,
    pub(in crate::langgraph) input: Option<Value>,
    pub(in crate::langgraph) command: Option<Command>,
    pub(in crate::langgraph) config: Config,
    pub(in crate::langgraph) context: Map<String, Value>,
    pub(in crate::langgraph) checkpoint_id: Option<String>,
    /// Namespace of the subgraph that the checkpoint belongs to, in the engine's form.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(in crate::langgraph) checkpoint_ns: String,
    pub(in crate::langgraph) stream_mode: Vec<Mode>,
    pub(in crate::langgraph) subgraphs: bool,
    /// Whether the events of the run are stored. With PostgreSQL, the events of all runs are stored.
    #[serde(default)]
    pub(in crate::langgraph) resumable: bool,
    pub(in crate::langgraph) interrupt_before: Option<Breakpoints>,
    pub(in crate::langgraph) interrupt_after: Option<Breakpoints>,
    pub(in crate::langgraph) webhook: Option<String>,
    pub(in crate::langgraph) durability: RunDurability,
    pub(in crate::langgraph) after_seconds: f64,
    /// Whether the thread is deleted when the run has ended.
    pub(in crate::langgraph) temporary: bool,
    /// W3C trace context of the request that created the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::langgraph) trace_parent: Option<String>,
}

/// Longest delay before a run.
pub(in crate::langgraph) const MAX_DELAY_SECONDS: f64 = 366.0 * 24.0 * 3600.0;

impl RunCreate {
    /// Checks the request and returns the parameters of the run. `settings` are the settings of the run's assistant,
    /// which the settings of the run override.
    pub(in crate::langgraph) fn kwargs(
        &self,
        graph_id: String,
        stateless: bool,
        mut settings: Map<String, Value>,
    ) -> ApiResult<RunKwargs> {
        self.config.check_context(self.context.as_ref())?;
        settings.extend(self.config.settings());
        settings.extend(self.context.clone().unwrap_or_default());
        if !self.feedback_keys.is_empty() {
            return Err(ApiError::invalid(
                "`feedback_keys` is not supported by this server; leave it out",
            ));
        }
        if self.repeated_assistant_id.as_ref().is_some_and(|it| *it != self.assistant_id) {
            let detail = "`assistantId` differs from `assistant_id`; leave it out";
            return Err(ApiError::invalid(detail));
        }
        if self.on_completion.is_some() && !stateless {
            let detail = "`on_completion` applies only to runs without a thread; leave it out";
            return Err(ApiError::invalid(detail));
        }
        let after_seconds = self.after_seconds.unwrap_or(0.0);
        if !(0.0..=MAX_DELAY_SECONDS).contains(&after_seconds) {
            return Err(ApiError::invalid(format!(
                "`after_seconds` is {after_seconds}; it must be between 0 and {MAX_DELAY_SECONDS}"
            )));
        }
        let mut config = self.config.clone();
        config.configurable = settings.clone();
        let at = self.position()?;
        // The Python client leaves out entries that are null, so a command can be empty.
        let command = self.command.clone().filter(|it| !it.is_empty());
        Ok(RunKwargs {
            graph_id,
            input: self.input.clone().filter(|_| command.is_none()),
            command,
            config,
            context: settings,
            checkpoint_id: at.checkpoint.map(wire_id),
            checkpoint_ns: at.namespace,
            stream_mode: self.stream_mode.clone(),
            subgraphs: self.stream_subgraphs,
            resumable: self.stream_resumable,
            interrupt_before: self.interrupt_before.clone(),
            interrupt_after: self.interrupt_after.clone(),
            webhook: self.webhook.clone(),
            durability: self.durability(),
            after_seconds,
            temporary: stateless && self.on_completion != Some(OnCompletion::Keep),
            trace_parent: None,
        })
    }

    fn durability(&self) -> RunDurability {
        let older = match self.checkpoint_during {
            Some(false) => RunDurability::Exit,
            _ => RunDurability::Async,
        };
        self.durability.unwrap_or(older)
    }

    /// Returns the checkpoint that the run starts from. As in LangGraph, a subgraph without a checkpoint is ignored.
    fn position(&self) -> ApiResult<Position> {
        let by_ref = self.checkpoint.as_ref().map(CheckpointRef::position).transpose()?;
        if let Some(position) = by_ref.filter(|it| it.checkpoint.is_some()) {
            return Ok(position);
        }
        let checkpoint = CheckpointRef::of_id(self.checkpoint_id.clone()).id()?;
        Ok(Position { checkpoint, ..Position::HEAD })
    }
}
