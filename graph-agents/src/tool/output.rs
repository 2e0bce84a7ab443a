//! Results of tools.

use graph_core::NodeError;
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{command::Command, message::ToolMessage};

/// The result of a tool.
///
/// ```
/// use graph_agents::{ToolOutput, tool};
/// use serde_json::json;
///
/// /// Counts the words of a text.
/// #[tool]
/// async fn count_words(text: String) -> ToolOutput {
///     let words: Vec<&str> = text.split_whitespace().collect();
///     ToolOutput::WithArtifact { content: json!(words.len()), artifact: json!(words) }
/// }
///
/// # fn main() {
/// assert_eq!(count_words().name(), "count_words");
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ToolOutput {
    /// A value. The model sees a text as it is and other values as JSON.
    Value(Value),
    /// Content for the model, and an artifact that only the application sees.
    WithArtifact {
        /// The content.
        content: Value,
        /// The artifact.
        artifact: Value,
    },
    /// A message, which must be the answer to the call.
    Message(ToolMessage),
    /// A command. Its update must contain the answer to the call.
    Command(Command),
    /// Several commands and messages, exactly one of which contains the answer to the call.
    Many(Vec<Self>),
}

/// A type that a tool can return: a serialisable value, a [`ToolOutput`], a [`Command`], or a `Result` of these.
///
/// `M` is a marker type that prevents overlapping implementations. It is always inferred.
#[diagnostic::on_unimplemented(
    message = "a tool cannot return `{Self}`",
    label = "not a valid return type of a tool",
    note = "return a value that implements `Serialize`, a `ToolOutput`, a `Command`, or a `Result` of these",
    note = "the error of a `Result` must convert into `NodeError`: an error type that is `Send + Sync`, such as `Box<dyn Error + Send + Sync>`, or a text"
)]
pub trait IntoToolOutput<M> {
    /// Converts the returned value.
    fn into_tool_output(self) -> Result<ToolOutput, NodeError>;
}

/// A type that a model can pass to a tool as an argument.
#[diagnostic::on_unimplemented(
    message = "a model cannot pass a value of type `{Self}` to a tool",
    label = "not a valid argument of a tool",
    note = "derive `serde::Deserialize` and `schemars::JsonSchema` for the type, or take it as a `Dep<..>`, which the \
            agent fills in"
)]
pub trait ToolArgument: DeserializeOwned + JsonSchema + Send + 'static {}

#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned + JsonSchema + Send + 'static> ToolArgument for T {}

#[doc(hidden)]
#[derive(Debug)]
pub struct IsValue;
#[doc(hidden)]
#[derive(Debug)]
pub struct IsOutput;
#[doc(hidden)]
#[derive(Debug)]
pub struct IsResult<M>(std::marker::PhantomData<M>);

#[diagnostic::do_not_recommend]
impl<T: Serialize> IntoToolOutput<IsValue> for T {
    fn into_tool_output(self) -> Result<ToolOutput, NodeError> {
        Ok(ToolOutput::Value(serde_json::to_value(self).map_err(NodeError::terminal)?))
    }
}

impl IntoToolOutput<IsOutput> for ToolOutput {
    fn into_tool_output(self) -> Result<ToolOutput, NodeError> {
        Ok(self)
    }
}

impl IntoToolOutput<IsOutput> for Command {
    fn into_tool_output(self) -> Result<ToolOutput, NodeError> {
        Ok(ToolOutput::Command(self))
    }
}

#[diagnostic::do_not_recommend]
impl<T: IntoToolOutput<M>, M, E: Into<NodeError>> IntoToolOutput<IsResult<M>> for Result<T, E> {
    fn into_tool_output(self) -> Result<ToolOutput, NodeError> {
        self.map_err(Into::into)?.into_tool_output()
    }
}
