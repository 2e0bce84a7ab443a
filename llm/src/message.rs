//! Messages of a conversation.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{InvalidToolCall, Media, ToolCall, tool_call::read_arguments};

/// One message of a conversation.
///
/// ```
/// use llm::{Message, Request, Role};
///
/// let conversation = vec![
///     Message::user("How long is the Rhine?"),
///     Message::assistant("About 1,230 km."),
///     Message::user("And the Danube?"),
/// ];
/// assert_eq!(conversation[1].role, Role::Assistant);
/// let request = Request::conversation(conversation);
/// assert_eq!(request.messages[2].text(), "And the Danube?");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Author of the message.
    pub role: Role,
    /// Parts of the message, in order.
    pub parts: Vec<Part>,
    /// Id of the message, for the application. It is not sent to the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Name of the author, for conversations with several participants. Only OpenAI's chat completions have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether the provider should cache the conversation up to the end of this message.
    ///
    /// For providers with explicit cache breakpoints (Anthropic, at most four), sets a breakpoint after this message.
    /// The other providers cache equal prefixes automatically.
    #[serde(default, skip_serializing_if = "is_false")]
    pub cache: bool,
}

/// Author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The user. Tool results also have this role.
    User,
    /// The model.
    Assistant,
    /// Instructions that apply from here on. The instructions for the whole conversation are in
    /// [`Request::system`](crate::Request::system).
    ///
    /// Anthropic and Gemini have no such messages, so they receive a user message with the text in a `<system>`
    /// element.
    System,
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// Reasoning that the model produced before its answer.
    Reasoning {
        /// The part of the reasoning that the provider discloses.
        text: String,
        /// Provider data that must be sent back unchanged when the conversation continues.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        opaque: Option<Value>,
    },
    /// An image, a document or audio. Only user messages contain media.
    Media(Media),
    /// A tool call requested by the model.
    ToolCall(ToolCall),
    /// A tool call whose arguments cannot be parsed.
    InvalidToolCall(InvalidToolCall),
    /// Result of a tool call.
    ToolResult {
        /// Id of the call.
        id: String,
        /// Name of the tool.
        name: String,
        /// The result as text.
        content: String,
        /// Whether the tool failed.
        #[serde(default, skip_serializing_if = "is_false")]
        failed: bool,
    },
}

impl Message {
    /// Creates a user message.
    pub fn user(text: impl Into<String>) -> Self {
        Self::new(Role::User, vec![Part::text(text)])
    }

    /// Creates an assistant message.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::new(Role::Assistant, vec![Part::text(text)])
    }

    /// Creates a message with instructions that apply from here on; see [`Role::System`].
    pub fn system(text: impl Into<String>) -> Self {
        Self::new(Role::System, vec![Part::text(text)])
    }

    /// Creates a message with the result of a tool call.
    pub fn tool_result(call: &ToolCall, content: impl Into<String>) -> Self {
        Self::new(Role::User, vec![result(call, content.into(), false)])
    }

    /// Creates a message with the result of a failed tool call.
    pub fn failed_tool_result(call: &ToolCall, error: impl Into<String>) -> Self {
        Self::new(Role::User, vec![result(call, error.into(), true)])
    }

    /// Creates a message from its parts.
    pub fn new(role: Role, parts: Vec<Part>) -> Self {
        Self { role, parts, id: None, name: None, cache: false }
    }

    /// Sets the id.
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Sets the name of the author.
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Marks this message as the end of a prefix to cache; see [`cache`](Self::cache).
    pub fn cached(mut self) -> Self {
        self.cache = true;
        self
    }

    /// Returns the text, without reasoning, tool calls and tool results.
    pub fn text(&self) -> String {
        text(&self.parts)
    }
}

impl Part {
    /// Creates a text part.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// Creates a tool call from arguments that are JSON or JSON text. The call is invalid if they are not an object.
    pub(crate) fn tool_call(
        id: String,
        name: String,
        arguments: &Value,
        opaque: Option<Value>,
    ) -> Self {
        match read_arguments(arguments) {
            Ok(arguments) => Self::ToolCall(ToolCall { id, name, arguments, opaque }),
            Err(error) => {
                let text = arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned);
                Self::InvalidToolCall(InvalidToolCall { id, name, arguments: text, error, opaque })
            }
        }
    }
}

impl From<Media> for Part {
    fn from(media: Media) -> Self {
        Self::Media(media)
    }
}

fn result(call: &ToolCall, content: String, failed: bool) -> Part {
    Part::ToolResult { id: call.id.clone(), name: call.name.clone(), content, failed }
}

/// Returns the concatenated text parts.
pub(crate) fn text(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(crate) fn is_false(it: &bool) -> bool {
    !it
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_that_are_not_an_object_make_a_call_invalid() {
        let call =
            |arguments: Value| Part::tool_call("1".to_owned(), "f".to_owned(), &arguments, None);
        for (arguments, text) in [(json!("{a"), "{a"), (json!([1]), "[1]"), (json!(3), "3")] {
            let Part::InvalidToolCall(invalid) = call(arguments) else { panic!("{text}") };
            assert_eq!((invalid.id.as_str(), invalid.arguments.as_str()), ("1", text));
        }
        for arguments in [json!({}), json!(null), json!(""), json!("{}")] {
            let Part::ToolCall(valid) = call(arguments) else { panic!("the call is valid") };
            assert_eq!(valid.arguments, json!({}));
        }
    }

    #[test]
    fn invalid_calls_are_stored_with_their_own_type() {
        let invalid = Part::tool_call("1".to_owned(), "f".to_owned(), &json!([1]), None);
        let stored = json!({
            "type": "invalid_tool_call", "id": "1", "name": "f", "arguments": "[1]", "error": "the arguments are not a JSON object",
        });
        assert_eq!(serde_json::to_value(&invalid).unwrap(), stored);
        assert_eq!(serde_json::from_value::<Part>(stored).unwrap(), invalid);
    }
}
