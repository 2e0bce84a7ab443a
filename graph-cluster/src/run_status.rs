//! Status of a run.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Status of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunStatus {
    /// The run waits for a worker or for an earlier run of its thread.
    Queued,
    /// A worker executes the run.
    Running,
    /// The run waits for answers to its interrupts. No worker holds it.
    Interrupted,
    /// The run reached a static stop of its graph.
    Stopped,
    /// The run completed.
    Done,
    /// The run failed.
    Failed,
    /// The run was cancelled.
    Cancelled,
}

impl RunStatus {
    /// Returns whether the run is queued or executing.
    pub fn is_active(self) -> bool {
        matches!(self, Self::Queued | Self::Running)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Interrupted => "interrupted",
            Self::Stopped => "stopped",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for RunStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for RunStatus {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let all = [
            Self::Queued,
            Self::Running,
            Self::Interrupted,
            Self::Stopped,
            Self::Done,
            Self::Failed,
            Self::Cancelled,
        ];
        let found = all.into_iter().find(|it| it.name() == name);
        found.ok_or_else(|| format!("unknown status `{name}`"))
    }
}
