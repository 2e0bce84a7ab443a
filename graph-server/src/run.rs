//! Runs as the service knows them.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It waits for its turn.
    Queued,
    /// Somebody works on it.
    Running,
    /// It waits for a person's answer.
    Waiting,
    /// It came to its end.
    Complete,
    /// It failed. Whether it can go on is seen by trying.
    Error,
    /// Somebody stopped it. It can go on.
    Cancelled,
}

impl Status {
    /// All there are.
    pub const ALL: [Self; 6] =
        [Self::Queued, Self::Running, Self::Waiting, Self::Complete, Self::Error, Self::Cancelled];

    /// Whether the service goes on with such a run by itself.
    pub fn is_live(self) -> bool {
        matches!(self, Self::Queued | Self::Running)
    }

    /// Its name, as it stands in JSON and in the registry.
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

/// A run that is to be started.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRun {
    /// Its id; [`is_id`] says what can be one.
    pub id: String,
    /// What it is a run of: a graph, a company.
    pub subject: String,
    /// What it is given, as its [`Runner`](crate::Runner) understands it.
    pub input: Value,
}

/// A run, as it stands in the registry.
#[derive(Debug, Clone, PartialEq)]
pub struct RunInfo {
    /// Its id.
    pub id: String,
    /// What it is a run of.
    pub subject: String,
    /// What it was given.
    pub input: Value,
    /// What it was told when it was last gone on with by hand; null if it never was.
    pub order: Value,
    /// Where it stands.
    pub status: Status,
    /// Why it failed.
    pub error: Option<String>,
    /// What it came to, in short, as its runner says; null before its end.
    pub outcome: Value,
    /// When it was made.
    pub created_at: SystemTime,
    /// When its status changed last.
    pub updated_at: SystemTime,
    /// When it came to where it does not go on from by itself.
    pub ended_at: Option<SystemTime>,
}

/// Something that happened in a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEvent {
    /// Counts the run's events, from 1, without a gap.
    pub seq: u64,
    /// What happened, as JSON.
    pub data: Arc<str>,
}

/// Whether a text can be a run's id: up to 100 letters, digits, `-`, `_` and `.`, and a letter or digit first. So it is
/// safe as part of a path and of an address.
pub fn is_id(text: &str) -> bool {
    let all = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.');
    text.len() <= 100
        && text.starts_with(|it: char| it.is_ascii_alphanumeric())
        && text.chars().all(all)
}

/// A time as milliseconds since 1970, in which form it is stored.
pub(crate) fn to_millis(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

pub(crate) fn from_millis(millis: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(millis.max(0).unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::is_id;

    #[test]
    fn ids_are_safe_in_paths() {
        for id in ["a", "nvda-20261115-121630-4f1c", "BRK.B_1"] {
            assert!(is_id(id), "{id}");
        }
        for id in ["", ".", "..", "a/b", "-x", "a b", "é", &"a".repeat(101), "a\0"] {
            assert!(!is_id(id), "{id}");
        }
    }
}
