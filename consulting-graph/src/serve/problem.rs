//! Errors of runs as clients see them.

use graph_core::checkpoint::CheckpointError;
use graph_server::http::Problem;

use crate::run::{Run, RunError};

/// Error message for a run that this program cannot resume.
const INCOMPATIBLE: &str = "this server cannot resume the run, because it was created by another version or its configuration was changed";

/// Converts an error to an HTTP response. Errors that concern only files on the host are logged and not sent to the
/// client.
pub(super) fn http_problem(problem: RunError) -> Problem {
    match problem {
        RunError::Config(_) | RunError::InvalidRequest(_) | RunError::NotAwaitingReview => {
            Problem::invalid(problem.to_string())
        }
        RunError::Setting { setting, problem } => {
            Problem::invalid(format!("`set` {setting}: {problem}"))
        }
        RunError::NotARun(_) => Problem::not_found("the run directory no longer exists"),
        RunError::Locked(_) => Problem::conflict("another process is executing the run"),
        RunError::Incompatible(_) => Problem::conflict(INCOMPATIBLE),
        other => Problem::internal(&other),
    }
}

/// Returns the error message of a failed run for clients. `run` is `None` if the run could not be opened. Errors that
/// concern only files on the host are logged and not sent to the client.
pub(super) fn client_message(id: &str, run: Option<&Run>, problem: &RunError) -> String {
    tracing::error!(run = id, %problem, "run failed");
    match (problem, run) {
        (RunError::Execution(error), Some(run)) if !is_storage(error) => run.redact_paths(problem),
        (RunError::Incompatible(_), _) => INCOMPATIBLE.to_owned(),
        (
            RunError::NotAwaitingReview
            | RunError::IncompleteRecording(_)
            | RunError::UnknownBackend(..)
            | RunError::InvalidRequest(_),
            _,
        ) => problem.to_string(),
        _ => {
            "an internal error stopped the run; see the server log for details, then resume the run"
                .to_owned()
        }
    }
}

fn is_storage(error: &graph_core::RunError) -> bool {
    matches!(error, graph_core::RunError::Checkpoint(CheckpointError::Storage(_)))
}
