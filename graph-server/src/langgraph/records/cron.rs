//! The record of a cron.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::langgraph::{authorize::Resource, document::Document, request::config::Metadata};

/// A schedule on which runs are started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::langgraph) struct Cron {
    pub(in crate::langgraph) cron_id: Uuid,
    pub(in crate::langgraph) assistant_id: Uuid,
    /// The thread of the runs. Without it, each run has its own thread.
    pub(in crate::langgraph) thread_id: Option<Uuid>,
    pub(in crate::langgraph) on_run_completed: Option<String>,
    pub(in crate::langgraph) end_time: Option<String>,
    pub(in crate::langgraph) schedule: String,
    pub(in crate::langgraph) timezone: Option<String>,
    pub(in crate::langgraph) created_at: String,
    pub(in crate::langgraph) updated_at: String,
    /// Parameters of the runs.
    pub(in crate::langgraph) payload: Map<String, Value>,
    /// Owner of the cron.
    pub(in crate::langgraph) user_id: Option<String>,
    pub(in crate::langgraph) next_run_date: Option<String>,
    pub(in crate::langgraph) metadata: Metadata,
    pub(in crate::langgraph) enabled: bool,
}

/// Fields by which crons can be sorted.
pub(in crate::langgraph) const CRON_SORT_FIELDS: [&str; 7] = [
    "cron_id", "assistant_id", "thread_id", "created_at", "updated_at", "next_run_date", "end_time",
];

/// Fields of crons that a search can select.
pub(in crate::langgraph) const CRON_FIELDS: [&str; 14] = [
    "cron_id", "assistant_id", "thread_id", "on_run_completed", "end_time", "schedule", "timezone",
    "created_at", "updated_at", "payload", "user_id", "next_run_date", "metadata", "enabled",
];

impl Document for Cron {
    const KIND: &'static str = "cron";
    const RESOURCES: &'static [Resource] = &[Resource::Crons];
    const HAS_METADATA: bool = true;

    fn id(&self) -> String {
        self.cron_id.to_string()
    }
}
