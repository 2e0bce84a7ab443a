//! The record of a run, and its status.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::langgraph::{
    authorize::Resource,
    document::Document,
    request::{
        config::Metadata,
        run::{MultitaskStrategy, RunKwargs},
    },
};

/// A run, as it is stored and returned to clients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::langgraph) struct Run {
    pub(in crate::langgraph) run_id: Uuid,
    pub(in crate::langgraph) thread_id: Uuid,
    pub(in crate::langgraph) assistant_id: Uuid,
    pub(in crate::langgraph) metadata: Metadata,
    pub(in crate::langgraph) status: RunStatus,
    pub(in crate::langgraph) kwargs: RunKwargs,
    pub(in crate::langgraph) multitask_strategy: MultitaskStrategy,
    pub(in crate::langgraph) created_at: String,
    pub(in crate::langgraph) updated_at: String,
    /// Number of times that the run was started. It is greater than 1 if a server was killed during the run.
    pub(in crate::langgraph) attempt: u32,
    /// Reason for the cancellation.
    pub(in crate::langgraph) cancel_reason: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::langgraph) enum RunStatus {
    Pending,
    Running,
    Success,
    Error,
    Interrupted,
    Timeout,
}

impl RunStatus {
    pub(in crate::langgraph) const ALL: [Self; 6] = [
        Self::Pending,
        Self::Running,
        Self::Success,
        Self::Error,
        Self::Interrupted,
        Self::Timeout,
    ];

    pub(in crate::langgraph) fn name(self) -> &'static str {
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
    pub(in crate::langgraph) fn is_active(self) -> bool {
        matches!(self, Self::Pending | Self::Running)
    }

    /// Returns whether a run with this status has failed.
    pub(in crate::langgraph) fn is_failure(self) -> bool {
        matches!(self, Self::Error | Self::Timeout)
    }
}

/// Fields of runs that a list can select.
pub(in crate::langgraph) const RUN_FIELDS: [&str; 11] = [
    "run_id", "thread_id", "assistant_id", "created_at", "updated_at", "status", "metadata",
    "kwargs", "multitask_strategy", "cancel_reason", "attempt",
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
