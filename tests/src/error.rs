//! Errors of scripted nodes, and the error codes of the conformance format.

use std::error::Error;

use graph_core::{RunError, json::UnknownLabelError, remote::RemoteError, state::FieldError};

/// The error that a scripted node or branch returns.
///
/// Events and states contain only the text of an error, so the text is identical to the error code of the format.
#[derive(Clone, Debug, thiserror::Error)]
#[error("node:{message}")]
pub(crate) struct ScriptedError {
    pub(crate) message: String,
}

/// The error returned when a branch or a command specifies a null target.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("null_target")]
pub(crate) struct NullTargetError;

/// The error returned when a call in a script fails.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error(transparent)]
    Run(#[from] RunError),
    #[error("the history contains no snapshot {0}")]
    NoSnapshot(usize),
    #[error("the call contains no known operation")]
    UnknownCall,
    /// An executor reported an error with this code, if it knows the code.
    #[error("the executor reported an error")]
    Executor(Option<String>),
}

impl From<FieldError> for CallError {
    fn from(error: FieldError) -> Self {
        Self::Run(error.into())
    }
}

impl CallError {
    /// Returns the error code of the format, or the text of the error if the format defines no code.
    pub(crate) fn code(&self) -> String {
        match self {
            Self::Run(error) => code(error),
            Self::Executor(Some(code)) => code.clone(),
            other => other.to_string(),
        }
    }

    /// Returns the error text of the failed task, as it appears in events and states.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Run(RunError::Node { error, .. }) => error.to_string(),
            other => other.to_string(),
        }
    }
}

/// Extracts the message of a scripted error from the error text that a handler receives.
pub(crate) fn message(text: &str) -> &str {
    text.strip_prefix("node:").unwrap_or(text)
}

/// Start of the text of an [`UnknownLabelError`].
const UNKNOWN_LABEL: &str = "the branch returned the label";

/// Returns the error code for the text of an error that did not end the run.
pub(crate) fn code_of_text(text: &str) -> &str {
    match text {
        _ if text.starts_with("field `") || text.starts_with("invalid update: ") => {
            "invalid_update"
        }
        _ if text.starts_with(UNKNOWN_LABEL) => "unknown_label",
        _ if text.starts_with("the run exceeded its limit of") => "recursion_limit",
        other => other,
    }
}

/// Returns the code of the node error that ended a run, or `None` if its text contains no code.
#[cfg(feature = "cluster")]
pub(crate) fn code_of_node_text(mut text: &str) -> Option<String> {
    // A node that runs a graph reports the failed node of that graph.
    while let Some(failed) = text.strip_prefix("node `")
        && let Some((_, step)) = failed.split_once(" failed in step ")
        && let Some((_, error)) = step.split_once(": ")
    {
        text = error;
    }
    let code = code_of_text(text);
    let is_code = code != text || text.starts_with("node:") || text == "null_target";
    is_code.then(|| code.to_owned())
}

fn code(error: &RunError) -> String {
    let word = match error {
        RunError::Node { error, .. } => return node_code(&**error),
        RunError::StepLimit { .. } => "recursion_limit",
        RunError::ZeroStepLimit => "bad_limit",
        RunError::Conflict(_)
        | RunError::Field(_)
        | RunError::InvalidUpdate(_)
        | RunError::UnknownNode { .. }
        | RunError::AmbiguousUpdate => "invalid_update",
        RunError::EmptyInput => "empty_input",
        RunError::MissingThread => "missing_thread",
        RunError::NoCheckpointer => "no_checkpointer",
        RunError::AmbiguousResume { .. } => "ambiguous_resume",
        RunError::NoParent { .. } => "no_parent",
        other => return other.to_string(),
    };
    word.to_owned()
}

fn node_code(error: &(dyn Error + Send + Sync + 'static)) -> String {
    let error: &(dyn Error + 'static) = error;
    if let Some(inner) = error.downcast_ref::<RunError>() {
        return code(inner);
    }
    if error.is::<FieldError>() {
        return "invalid_update".to_owned();
    }
    let text = error.to_string();
    // An error of a task in another process has lost its type.
    let is_unknown_label = text.starts_with(UNKNOWN_LABEL);
    if error.is::<UnknownLabelError>() || (error.is::<RemoteError>() && is_unknown_label) {
        return "unknown_label".to_owned();
    }
    text
}
