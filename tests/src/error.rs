//! Errors: those that scripted nodes fail with, and the word of the format for each error of the engine.

use std::error::Error;

use graph_core::{RunError, json::UnknownLabel, state::FieldError};

/// What a scripted node or branch fails with.
///
/// Events and states show errors as text alone, so the text is the word of the format already.
#[derive(Clone, Debug, thiserror::Error)]
#[error("node:{message}")]
pub(crate) struct Scripted {
    pub(crate) message: String,
}

/// A branch that answered null.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("null_target")]
pub(crate) struct NullTarget;

/// A call that came to nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error(transparent)]
    Run(#[from] RunError),
    #[error("the history has no snapshot {0}")]
    NoSnapshot(usize),
    #[error("the call says nothing that the driver knows")]
    UnknownCall,
}

impl From<FieldError> for Fault {
    fn from(error: FieldError) -> Self {
        Self::Run(error.into())
    }
}

impl Fault {
    /// The word for it, or its text where the format has none.
    pub(crate) fn code(&self) -> String {
        match self {
            Self::Run(error) => code(error),
            other => other.to_string(),
        }
    }

    /// What the task it comes from failed with, as events and states show it.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Run(RunError::Node { error, .. }) => error.to_string(),
            other => other.to_string(),
        }
    }
}

/// The message of a scripted error, from the text that a handler is shown.
pub(crate) fn message(text: &str) -> &str {
    text.strip_prefix("node:").unwrap_or(text)
}

/// The word for the text of an error inside a task that did not end its run, so that it is known as text alone.
pub(crate) fn word(text: &str) -> &str {
    match text {
        _ if text.starts_with("field `") => "invalid_update",
        _ if text.starts_with("the run did not end within") => "recursion_limit",
        other => other,
    }
}

fn code(error: &RunError) -> String {
    let word = match error {
        RunError::Node { error, .. } => return node_code(&**error),
        RunError::StepLimit { .. } => "recursion_limit",
        RunError::BadLimit => "bad_limit",
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
    if error.is::<UnknownLabel>() {
        return "unknown_label".to_owned();
    }
    error.to_string()
}
