//! Threads and their times to live.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::langgraph::{
    authorize::Resource, document::Document, error::NamedError, request::config::Metadata,
    time::now,
};

/// A thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::langgraph) struct Thread {
    pub(in crate::langgraph) thread_id: Uuid,
    pub(in crate::langgraph) created_at: String,
    pub(in crate::langgraph) updated_at: String,
    pub(in crate::langgraph) state_updated_at: String,
    pub(in crate::langgraph) metadata: Metadata,
    pub(in crate::langgraph) status: ThreadStatus,
    pub(in crate::langgraph) config: Value,
    pub(in crate::langgraph) values: Option<Value>,
    pub(in crate::langgraph) error: Option<NamedError>,
    /// The pending interrupts, by task id.
    pub(in crate::langgraph) interrupts: Map<String, Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::langgraph) enum ThreadStatus {
    Idle,
    Busy,
    Interrupted,
    Error,
}

impl ThreadStatus {
    pub(in crate::langgraph) fn name(self) -> &'static str {
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
    pub(in crate::langgraph) fn new(thread_id: Uuid, metadata: Metadata) -> Self {
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
    pub(in crate::langgraph) fn graph(&self) -> Option<&str> {
        self.metadata.get("graph_id").and_then(Value::as_str)
    }
}

/// Fields by which threads can be sorted.
pub(in crate::langgraph) const THREAD_SORT_FIELDS: [&str; 5] =
    ["thread_id", "status", "created_at", "updated_at", "state_updated_at"];

/// Fields of threads that a search can select.
pub(in crate::langgraph) const THREAD_FIELDS: [&str; 11] = [
    "thread_id", "created_at", "updated_at", "state_updated_at", "metadata", "config", "context",
    "status", "values", "interrupts", "error",
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
pub(in crate::langgraph) struct ThreadTtl {
    pub(in crate::langgraph) thread_id: Uuid,
    pub(in crate::langgraph) strategy: TtlStrategy,
    pub(in crate::langgraph) ttl_minutes: f64,
    pub(in crate::langgraph) expires_at: DateTime<Utc>,
}

/// Action that is taken when a thread's time to live has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::langgraph) enum TtlStrategy {
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
