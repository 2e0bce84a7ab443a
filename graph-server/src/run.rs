//! The data of a run, such as its status, input and events.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Status of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The run is waiting in the queue.
    Queued,
    /// The run is executing.
    Running,
    /// The run is interrupted and is waiting for a person's answer.
    Waiting,
    /// The run has finished.
    Complete,
    /// The run has failed. Resuming it retries it.
    Error,
    /// The run was cancelled. It can be resumed.
    Cancelled,
}

impl Status {
    /// All statuses.
    pub const ALL: [Self; 6] =
        [Self::Queued, Self::Running, Self::Waiting, Self::Complete, Self::Error, Self::Cancelled];

    /// Returns whether the run is queued or executing. Such runs are resumed when the service is restarted.
    pub fn is_active(self) -> bool {
        matches!(self, Self::Queued | Self::Running)
    }

    /// Returns the name used in JSON and in the registry.
    pub fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Complete => "complete",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A run that is about to be started.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRun {
    /// Id of the run; see [`is_valid_id`].
    pub id: String,
    /// Subject of the run, such as the name of a graph or a company.
    pub subject: String,
    /// Input, in the format that the [`Runner`](crate::Runner) expects.
    pub input: Value,
}

/// A run as stored in the registry.
#[derive(Debug, Clone, PartialEq)]
pub struct RunInfo {
    /// Id of the run.
    pub id: String,
    /// Subject of the run, such as the name of a graph or a company.
    pub subject: String,
    /// Input of the run.
    pub input: Value,
    /// Arguments of the last call to [`Service::resume`](crate::Service::resume). Null if no caller has resumed the
    /// run.
    pub resume_args: Value,
    /// Current status.
    pub status: Status,
    /// Error message of a failed run.
    pub error: Option<String>,
    /// Summary of the result, in a runner-specific format. Null until the run completes.
    pub outcome: Value,
    /// Creation time.
    pub created_at: SystemTime,
    /// Time of the last status change.
    pub updated_at: SystemTime,
    /// Time at which the run became inactive (complete, waiting, failed or cancelled).
    pub ended_at: Option<SystemTime>,
}

/// An event of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEvent {
    /// Sequence number within the run. Sequence numbers start at 1 and have no gaps.
    pub seq: u64,
    /// The event as JSON.
    pub data: Arc<str>,
}

/// Returns whether `text` is a valid run id. A valid id has 1 to 100 letters, digits, `-`, `_` and `.`, and starts
/// with a letter or digit. Such ids are safe in file paths and URLs.
pub fn is_valid_id(text: &str) -> bool {
    let all = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.');
    text.len() <= 100
        && text.starts_with(|it: char| it.is_ascii_alphanumeric())
        && text.chars().all(all)
}

/// Converts a time to milliseconds since the Unix epoch, which is the stored format.
pub(crate) fn to_millis(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

pub(crate) fn from_millis(millis: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(millis.max(0).unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::is_valid_id;

    #[test]
    fn only_ids_that_are_safe_in_paths_are_valid() {
        for id in ["a", "nvda-20261115-121630-4f1c", "BRK.B_1"] {
            assert!(is_valid_id(id), "{id}");
        }
        for id in ["", ".", "..", "a/b", "-x", "a b", "é", &"a".repeat(101), "a\0"] {
            assert!(!is_valid_id(id), "{id}");
        }
    }
}
