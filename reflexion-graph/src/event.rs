//! What a session tells while it goes on.

use serde::{Deserialize, Serialize};

use crate::{
    answer::Critique,
    execution::{Execution, Status},
    failure::{Class, Failure},
    state::Outcome,
};

/// Something that happened in a session. Nothing but a failure happens twice in one, so two events that are equal are one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Progress {
    /// It began.
    Started {
        /// The task.
        task: String,
        /// Who writes.
        model: String,
    },
    /// A program is being written.
    Generating {
        /// The attempt.
        attempt: u32,
        /// Whether it is written afresh because the last two failed in the same way.
        resampled: bool,
    },
    /// A program was written.
    Code {
        /// The attempt.
        attempt: u32,
        /// The program.
        code: String,
        /// What it needs.
        dependencies: Vec<String>,
        /// Why it is so.
        reasoning: String,
        /// How sure its author is.
        confidence: f64,
    },
    /// It is being run.
    Executing {
        /// The attempt.
        attempt: u32,
    },
    /// It was run.
    ExecutionResult {
        /// The attempt.
        attempt: u32,
        /// How it ended.
        status: Status,
        /// The code it ended with.
        exit_code: Option<i32>,
        /// Its output.
        stdout: String,
        /// Its error output.
        stderr: String,
        /// How long it took.
        duration_ms: u64,
        /// Whether it ran apart from the host; nothing where it did not run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        isolated: Option<bool>,
    },
    /// It failed, and is being criticised.
    Critiquing {
        /// The attempt.
        attempt: u32,
        /// What kind of failure it is.
        class: Class,
        /// The error.
        error: String,
    },
    /// It was criticised.
    Critique {
        /// The attempt.
        attempt: u32,
        /// What was said.
        #[serde(flatten)]
        critique: Critique,
    },
    /// Another attempt is made.
    Retrying {
        /// The next attempt.
        attempt: u32,
    },
    /// It came to its end.
    Complete {
        /// What it came to.
        #[serde(flatten)]
        outcome: Outcome,
    },
    /// It failed, and can be gone on with.
    Error {
        /// Why.
        message: String,
    },
}

impl Progress {
    pub(crate) fn of_execution(attempt: u32, execution: &Execution) -> Self {
        Self::ExecutionResult {
            attempt,
            status: execution.status,
            exit_code: execution.exit_code,
            stdout: execution.stdout.clone(),
            stderr: execution.stderr.clone(),
            duration_ms: execution.duration_ms,
            isolated: execution.isolation(),
        }
    }

    pub(crate) fn critiquing(attempt: u32, failure: &Failure) -> Self {
        Self::Critiquing { attempt, class: failure.class, error: failure.error.clone() }
    }
}
