//! Rules for answering errors with a message to the model instead of failing the run.

use std::{fmt, sync::Arc};

use graph_core::NodeError;

use crate::{
    AgentError,
    error::{error_name, is_failure, quoted},
};

/// Rules that determine which errors a tool node answers with a message to the model, instead of failing the run.
///
/// By default, only errors about invalid arguments are answered. Interrupts are never answered.
///
/// ```
/// use graph_agents::{Agent, AiMessage, ScriptedModel, ToolCall, ToolErrors, tool};
/// use serde_json::json;
///
/// /// Returns half of an even number.
/// #[tool]
/// async fn half(number: i64) -> Result<i64, graph_core::NodeError> {
///     if number % 2 == 0 { Ok(number / 2) } else { Err("the number is odd".into()) }
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let call = ToolCall::new("half", json!({"number": 3}), "call-1");
/// let model = ScriptedModel::new([AiMessage::new("").tool_call(call), AiMessage::new("I cannot.")]);
/// let half = half().errors(ToolErrors::answer_text("Only even numbers have a half."));
/// let outcome = Agent::new(model).tools([half]).compile()?.run("What is half of 3?").await?;
/// assert_eq!(outcome.messages[2].text(), "Only even numbers have a half.");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct ToolErrors {
    answer: Arc<dyn Fn(&NodeError) -> Option<String> + Send + Sync>,
}

impl ToolErrors {
    /// Answers the errors for which the function returns a text.
    pub fn answer_with(
        answer: impl Fn(&NodeError) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        Self { answer: Arc::new(answer) }
    }

    /// Answers no error.
    pub fn raise() -> Self {
        Self::answer_with(|_| None)
    }

    /// Answers all errors. The answer contains the name and the message of the error.
    pub fn answer_all() -> Self {
        Self::answer_with(|error| Some(Self::default_text(error)))
    }

    /// Answers each error that the function selects. The answer contains the name and the message of the error.
    pub fn answer_if(covers: impl Fn(&NodeError) -> bool + Send + Sync + 'static) -> Self {
        Self::answer_with(move |error| covers(error).then(|| Self::default_text(error)))
    }

    /// Answers all errors with this text.
    pub fn answer_text(text: impl Into<String>) -> Self {
        let text = text.into();
        Self::answer_with(move |_| Some(text.clone()))
    }

    /// Returns the text with the name and message of an error.
    pub fn default_text(error: &NodeError) -> String {
        format!("Error: {}\n Please fix your mistakes.", quoted(error))
    }

    /// Returns the text that answers a tool's error, or `None` if the rules do not cover it or if it is not a failure,
    /// such as an interrupt.
    pub(crate) fn text(&self, error: &NodeError) -> Option<String> {
        (self.answer)(error).filter(|_| is_failure(error))
    }
}

impl Default for ToolErrors {
    fn default() -> Self {
        Self::answer_with(|error| {
            (error_name(error) == AgentError::TOOL_INVOCATION).then(|| error.to_string())
        })
    }
}

impl fmt::Debug for ToolErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ToolErrors")
    }
}

/// The text that answers a tool's [`AgentError::tool`] errors: see
/// [`Tool::handle_exceptions`](crate::Tool::handle_exceptions).
#[derive(Clone)]
#[non_exhaustive]
pub enum ExceptionAnswer {
    /// The error's message.
    Message,
    /// This text.
    Text(String),
    /// The text that the function returns for the error's message.
    With(Arc<dyn Fn(&str) -> String + Send + Sync>),
}

impl fmt::Debug for ExceptionAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message => f.write_str("Message"),
            Self::Text(text) => f.debug_tuple("Text").field(text).finish(),
            Self::With(_) => f.write_str("With"),
        }
    }
}
