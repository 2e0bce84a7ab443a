//! Errors of agents, tools and middleware.

use std::borrow::Cow;

use graph_core::NodeError;

use crate::notation;

/// An error with a name.
///
/// Models, retry rules and error handlers see the name, so the errors of this crate have the names of LangChain's
/// classes. Tools can choose other names: `AgentError::named("ConnectionError", "no route to host")`.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct AgentError {
    name: Cow<'static, str>,
    message: String,
    /// Whether the error rejects the decision of a reviewer, who can then make another decision.
    refuses_decision: bool,
}

graph_core::readable_debug!(AgentError);

impl AgentError {
    /// Name of the errors that [`AgentError::tool`] creates.
    pub const TOOL_EXCEPTION: &'static str = "ToolException";
    /// Name of the error returned when a model calls a tool with invalid arguments.
    pub const TOOL_INVOCATION: &'static str = "ToolInvocationError";

    /// Creates an error with a name and a message.
    pub fn named(name: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self { name: name.into(), message: message.into(), refuses_decision: false }
    }

    /// Creates an error about an invalid value.
    pub fn value(message: impl Into<String>) -> Self {
        Self::named("ValueError", message)
    }

    /// Creates an error about a reviewer's decision that is not valid.
    pub(crate) fn refused_decision(message: impl Into<String>) -> Self {
        Self { refuses_decision: true, ..Self::value(message) }
    }

    /// Returns whether the error is about a reviewer's decision that is not valid.
    pub(crate) fn refuses_decision(&self) -> bool {
        self.refuses_decision
    }

    /// Creates an error that is returned to the model as the result of the call, if the tool sets
    /// [`Tool::handle_exceptions`](crate::Tool::handle_exceptions).
    pub fn tool(message: impl Into<String>) -> Self {
        Self::named(Self::TOOL_EXCEPTION, message)
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the message.
    pub fn message(&self) -> &str {
        &self.message
    }
}

/// Returns the name of a node's error: the name of an [`AgentError`], or `Error` for other errors.
pub fn error_name(error: &NodeError) -> &str {
    error.downcast_ref::<AgentError>().map_or("Error", AgentError::name)
}

/// Formats an error as its name and its quoted message: `ValueError('boom')`.
pub(crate) fn quoted(error: &NodeError) -> String {
    format!("{}({})", error_name(error), notation::python_str(&error.to_string()))
}

/// Returns whether the error is a failure. Interrupts and commands to a parent graph also leave a node as errors, but
/// must reach the engine unchanged.
pub(crate) fn is_failure(error: &NodeError) -> bool {
    error.source().is_some()
}
