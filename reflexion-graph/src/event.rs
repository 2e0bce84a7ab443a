//! Progress events of a session.

use app_support::event_log::{self, LoggedEvent, Repetition};
use sandbox_vm::report::IsolationLevel;
use serde::{Deserialize, Serialize};

use crate::{
    answer::Critique,
    execution::{Execution, Status},
    failure::{Class, Failure},
    state::Outcome,
};

/// An event with its sequence number.
pub type NumberedEvent = event_log::NumberedEvent<Progress>;

/// A progress event of a session. Except for `Error`, no event occurs twice in a session, so an event that is equal to
/// an earlier one is a duplicate. Duplicates are sent if a step runs again after a restart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Progress {
    Started {
        task: String,
        /// The model that writes programs.
        model: String,
    },
    /// The model is writing a program.
    Generating {
        attempt: u32,
        /// Whether the program is written from scratch because the last two attempts failed in the same way.
        resampled: bool,
    },
    /// The model has written a program.
    Code {
        attempt: u32,
        code: String,
        /// Packages that the program requires.
        dependencies: Vec<String>,
        /// Why the program is written this way.
        reasoning: String,
        /// The model's confidence that the program works, from 0 to 1.
        confidence: f64,
    },
    /// The program is being executed.
    Executing { attempt: u32 },
    ExecutionResult {
        attempt: u32,
        /// How the execution ended.
        status: Status,
        /// Exit code, if the program exited by itself.
        exit_code: Option<i32>,
        /// Standard output.
        stdout: String,
        stderr: String,
        duration_ms: u64,
        /// How strongly the program was isolated from the host: `vm`, `kernel`, `process` or `off`; `None` if it did
        /// not run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        isolation: Option<IsolationLevel>,
        /// Whether a kernel limited the memory of the sandbox; `None` if the program did not run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        memory_bounded: Option<bool>,
    },
    /// The program failed, and the critic is analysing the failure.
    Critiquing {
        attempt: u32,
        class: Class,
        /// The error in one line.
        error: String,
    },
    /// The critic has answered.
    Critique {
        attempt: u32,
        /// The critic's answer.
        #[serde(flatten)]
        critique: Critique,
    },
    /// The next attempt will start.
    Retrying { attempt: u32 },
    Complete {
        #[serde(flatten)]
        outcome: Outcome,
    },
    /// The session failed and can be resumed.
    Error { message: String },
}

impl LoggedEvent for Progress {
    fn repetition(&self) -> Repetition {
        match self {
            Self::Error { .. } => Repetition::Always,
            _ => Repetition::Never,
        }
    }
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
            isolation: execution.isolation,
            memory_bounded: execution.memory_bounded,
        }
    }

    pub(crate) fn critiquing(attempt: u32, failure: &Failure) -> Self {
        Self::Critiquing { attempt, class: failure.class, error: failure.error.clone() }
    }
}
