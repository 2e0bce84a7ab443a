//! Converts errors to the form of the case files: the name of the Python class, and the message.

use std::error::Error;

use graph_agents::AgentError;
use graph_core::{NodeError, RunError, WriteConflictError, state::FieldError};
use serde_json::{Value, json};

/// Returns the class and message of an error of a run.
pub(super) fn run_error(error: &RunError) -> Value {
    match error {
        RunError::Node { error, .. } => node_error(&**error),
        RunError::Field(error) => shown("ValueError", &error.problem),
        RunError::Conflict(error) => conflict(error),
        RunError::StepLimit { limit } => shown(
            "GraphRecursionError",
            &format!(
                "Recursion limit of {limit} reached without hitting a stop condition. You can increase the limit by \
                 setting the `recursion_limit` config key."
            ),
        ),
        RunError::EmptyInput => shown("EmptyInputError", "Received no input for __start__"),
        RunError::AmbiguousResume { .. } => shown(
            "RuntimeError",
            "When there are multiple pending interrupts, you must specify the interrupt id when resuming.",
        ),
        other => shown("Error", &other.to_string()),
    }
}

fn node_error(error: &(dyn Error + Send + Sync + 'static)) -> Value {
    let error: &(dyn Error + 'static) = error;
    if let Some(error) = error.downcast_ref::<AgentError>() {
        return agent_error(error);
    }
    if let Some(error) = error.downcast_ref::<RunError>() {
        return run_error(error);
    }
    if let Some(error) = error.downcast_ref::<FieldError>() {
        return shown("ValueError", &error.problem);
    }
    if let Some(error) = error.downcast_ref::<WriteConflictError>() {
        return conflict(error);
    }
    shown("Error", &error.to_string())
}

/// Returns the class and message of an error from `graph-agents`.
pub(super) fn agent_error(error: &AgentError) -> Value {
    shown(error.name(), error.message())
}

fn conflict(error: &WriteConflictError) -> Value {
    shown(
        "InvalidUpdateError",
        &format!(
            "At key '{}': Can receive only one value per step. Use an Annotated key to handle multiple values.",
            error.field
        ),
    )
}

fn shown(class: &str, message: &str) -> Value {
    json!({"class": class, "message": message})
}

/// Returns whether the Python class `class` is `ancestor` or is derived from it.
pub(super) fn is_a(class: &str, ancestor: &str) -> bool {
    let parent = match class {
        _ if class == ancestor => return true,
        "Exception" | "BaseException" => return false,
        "ToolInvocationError" => "ToolException",
        "KeyError" | "IndexError" => "LookupError",
        "ConnectionError" | "TimeoutError" | "PermissionError" | "FileNotFoundError" => "OSError",
        "NotImplementedError" | "RecursionError" => "RuntimeError",
        "ZeroDivisionError" | "OverflowError" => "ArithmeticError",
        "UnicodeError" | "JSONDecodeError" => "ValueError",
        "StructuredOutputValidationError" | "MultipleStructuredOutputsError" => {
            "StructuredOutputError"
        }
        _ => "Exception",
    };
    is_a(parent, ancestor)
}

/// Returns whether the class of an error is one of these classes or is derived from one of them.
pub(super) fn has_class(error: &NodeError, classes: &[String]) -> bool {
    let class = graph_agents::error_name(error);
    classes.iter().any(|it| is_a(class, it))
}

/// Reads a list of class names.
pub(super) fn classes(value: &Value) -> Option<Vec<String>> {
    let names = value.as_array()?.iter();
    Some(names.filter_map(|it| it.as_str().map(str::to_owned)).collect())
}
