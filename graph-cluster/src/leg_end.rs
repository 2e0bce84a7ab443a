//! How the execution of a leg ended.

use std::time::Duration;

use crate::{run::RunResult, run_status::RunStatus};

/// How the execution of a leg ended.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum LegEnd {
    /// The leg ended with this status and result.
    Ended(RunStatus, RunResult),
    /// The run sleeps: see [`sleep`](crate::sleep()). The next leg is queued and starts afterwards.
    Sleeping {
        /// Number of times that a worker has claimed the run.
        claims: i64,
        /// Time before the next leg may start.
        delay: Duration,
    },
    /// The run stopped between two steps, because the worker shuts down. The next execution continues it.
    Drained,
    /// The checkpointer or the database failed. The leg should be executed again after a delay.
    Retry(String),
    /// Another worker has claimed the run. This worker has stored nothing since.
    Lost,
}

impl LegEnd {
    pub(crate) fn failed(error: impl Into<String>) -> Self {
        let result = RunResult { error: Some(error.into()), ..RunResult::default() };
        Self::Ended(RunStatus::Failed, result)
    }
}
