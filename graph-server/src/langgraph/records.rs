//! The stored objects of the API. Their fields have the names and formats of the API.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{
    authorize::Resource,
    document::Document,
    error::NamedError,
    request::{
        config::Metadata,
        run::{MultitaskStrategy, RunKwargs},
    },
    time::now,
};

/// A thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Thread {
    pub(super) thread_id: Uuid,
    pub(super) created_at: String,
    pub(super) updated_at: String,
    pub(super) state_updated_at: String,
    pub(super) metadata: Metadata,
    pub(super) status: ThreadStatus,
    pub(super) config: Value,
    pub(super) values: Option<Value>,
    pub(super) error: Option<NamedError>,
    /// The pending interrupts, by task id.
    pub(super) interrupts: Map<String, Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ThreadStatus {
    Idle,
    Busy,
    Interrupted,
    Error,
}

impl ThreadStatus {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Busy => "busy",
            Self::Interrupted => "interrupted",
            Self::Error => "error",
        }
    }
}

impl Thread {
    /// Returns a thread that has never run.
    pub(super) fn new(thread_id: Uuid, metadata: Metadata) -> Self {
        let now = now();
        Self {
            thread_id,
            created_at: now.clone(),
            updated_at: now.clone(),
            state_updated_at: now,
            metadata,
            status: ThreadStatus::Idle,
            config: Value::Object(Map::new()),
            values: None,
            error: None,
            interrupts: Map::new(),
        }
    }

    /// Returns the graph that the thread belongs to, once it is known.
    pub(super) fn graph(&self) -> Option<&str> {
        self.metadata.get("graph_id").and_then(Value::as_str)
    }
}

/// Fields of threads that a search can select.
pub(super) const THREAD_FIELDS: [&str; 11] = [
    "thread_id",
    "created_at",
    "updated_at",
    "state_updated_at",
    "metadata",
    "config",
    "context",
    "status",
    "values",
    "interrupts",
    "error",
];

impl Document for Thread {
    const KIND: &'static str = "thread";
    const RESOURCES: &'static [Resource] = &[Resource::Threads, Resource::Runs];
    const HAS_METADATA: bool = true;

    fn id(&self) -> String {
        self.thread_id.to_string()
    }
}

/// The time to live of a thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ThreadTtl {
    pub(super) thread_id: Uuid,
    pub(super) strategy: TtlStrategy,
    pub(super) ttl_minutes: f64,
    pub(super) expires_at: DateTime<Utc>,
}

/// Action that is taken when a thread's time to live has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum TtlStrategy {
    /// The thread is deleted.
    #[default]
    Delete,
    /// All checkpoints of the thread except the latest are deleted.
    KeepLatest,
}

impl Document for ThreadTtl {
    const KIND: &'static str = "thread_ttl";
    const RESOURCES: &'static [Resource] = &[Resource::Threads, Resource::Runs];

    fn id(&self) -> String {
        self.thread_id.to_string()
    }
}

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Run {
    pub(super) run_id: Uuid,
    pub(super) thread_id: Uuid,
    pub(super) assistant_id: Uuid,
    pub(super) metadata: Metadata,
    pub(super) status: RunStatus,
    pub(super) kwargs: RunKwargs,
    pub(super) multitask_strategy: MultitaskStrategy,
    pub(super) created_at: String,
    pub(super) updated_at: String,
    /// Number of times that the run was started. It is greater than 1 if a server was killed during the run.
    pub(super) attempt: u32,
    /// Reason for the cancellation.
    #[serde(default)]
    pub(super) cancel_reason: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RunStatus {
    Pending,
    Running,
    Success,
    Error,
    Interrupted,
    Timeout,
}

impl RunStatus {
    pub(super) const ALL: [Self; 6] = [
        Self::Pending,
        Self::Running,
        Self::Success,
        Self::Error,
        Self::Interrupted,
        Self::Timeout,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Success => "success",
            Self::Error => "error",
            Self::Interrupted => "interrupted",
            Self::Timeout => "timeout",
        }
    }

    /// Returns whether a run with this status has not ended.
    pub(super) fn is_active(self) -> bool {
        matches!(self, Self::Pending | Self::Running)
    }

    /// Returns whether a run with this status has failed.
    pub(super) fn is_failure(self) -> bool {
        matches!(self, Self::Error | Self::Timeout)
    }
}

/// Fields of runs that a list can select.
pub(super) const RUN_FIELDS: [&str; 11] = [
    "run_id",
    "thread_id",
    "assistant_id",
    "created_at",
    "updated_at",
    "status",
    "metadata",
    "kwargs",
    "multitask_strategy",
    "cancel_reason",
    "attempt",
];

impl Document for Run {
    const KIND: &'static str = "run";
    const RESOURCES: &'static [Resource] = &[Resource::Threads, Resource::Runs];
    const HAS_METADATA: bool = true;

    fn id(&self) -> String {
        self.run_id.to_string()
    }

    fn parent(&self) -> Option<String> {
        Some(self.thread_id.to_string())
    }

    fn status(&self) -> Option<String> {
        Some(self.status.name().to_owned())
    }
}

/// An assistant: a graph with a configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Assistant {
    pub(super) assistant_id: Uuid,
    pub(super) graph_id: String,
    pub(super) config: Value,
    pub(super) context: Value,
    pub(super) metadata: Metadata,
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) created_at: String,
    pub(super) updated_at: String,
    pub(super) version: u32,
}

/// Fields of assistants that a search can select.
pub(super) const ASSISTANT_FIELDS: [&str; 10] = [
    "assistant_id",
    "graph_id",
    "config",
    "context",
    "metadata",
    "name",
    "description",
    "created_at",
    "updated_at",
    "version",
];

impl Document for Assistant {
    const KIND: &'static str = "assistant";
    const RESOURCES: &'static [Resource] = &[Resource::Assistants];
    const HAS_METADATA: bool = true;
    const SHARED: bool = true;

    fn id(&self) -> String {
        self.assistant_id.to_string()
    }
}

/// One version of an assistant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct AssistantVersion(pub(super) Assistant);

impl Document for AssistantVersion {
    const KIND: &'static str = "assistant_version";
    const RESOURCES: &'static [Resource] = &[Resource::Assistants];
    const HAS_METADATA: bool = true;
    const SHARED: bool = true;

    fn id(&self) -> String {
        format!("{}:{}", self.0.assistant_id, self.0.version)
    }

    fn parent(&self) -> Option<String> {
        Some(self.0.assistant_id.to_string())
    }
}

/// A schedule on which runs are started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Cron {
    pub(super) cron_id: Uuid,
    pub(super) assistant_id: Uuid,
    /// The thread of the runs. Without it, each run has its own thread.
    pub(super) thread_id: Option<Uuid>,
    pub(super) on_run_completed: Option<String>,
    pub(super) end_time: Option<String>,
    pub(super) schedule: String,
    pub(super) timezone: Option<String>,
    pub(super) created_at: String,
    pub(super) updated_at: String,
    /// Parameters of the runs.
    pub(super) payload: Map<String, Value>,
    /// Owner of the cron.
    pub(super) user_id: Option<String>,
    pub(super) next_run_date: Option<String>,
    pub(super) metadata: Metadata,
    pub(super) enabled: bool,
}

/// Fields by which crons can be sorted.
pub(super) const CRON_SORT_FIELDS: [&str; 7] = [
    "cron_id",
    "assistant_id",
    "thread_id",
    "created_at",
    "updated_at",
    "next_run_date",
    "end_time",
];

/// Fields of crons that a search can select.
pub(super) const CRON_FIELDS: [&str; 14] = [
    "cron_id",
    "assistant_id",
    "thread_id",
    "on_run_completed",
    "end_time",
    "schedule",
    "timezone",
    "created_at",
    "updated_at",
    "payload",
    "user_id",
    "next_run_date",
    "metadata",
    "enabled",
];

impl Document for Cron {
    const KIND: &'static str = "cron";
    const RESOURCES: &'static [Resource] = &[Resource::Crons];
    const HAS_METADATA: bool = true;

    fn id(&self) -> String {
        self.cron_id.to_string()
    }
}
