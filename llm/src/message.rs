//! Messages: what was said so far, by whom.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who said it.
    pub role: Role,
    /// What was said, in its order.
    pub parts: Vec<Part>,
    /// Whether the conversation up to the end of this message is worth keeping in the provider's prompt cache.
    ///
    /// A provider with breakpoints (Anthropic, at most four) sets one here; the others cache by equal prefixes
    /// and need no sign.
    #[serde(default, skip_serializing_if = "is_false")]
    pub cache: bool,
}

/// Who said a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The one who asks; also where the results of tools come back.
    User,
    /// The model.
    Assistant,
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// Words.
    Text {
        /// The words.
        text: String,
    },
    /// What the model thought before it answered.
    Reasoning {
        /// The thought, as far as the provider shows it.
        text: String,
        /// What the provider wants back, unread, when the conversation goes on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        opaque: Option<Value>,
    },
    /// A tool that the model wants called.
    ToolCall(ToolCall),
    /// What a tool gave back.
    ToolResult {
        /// The call's id.
        id: String,
        /// The tool's name.
        name: String,
        /// The result in words.
        content: String,
        /// Whether the tool failed.
        #[serde(default, skip_serializing_if = "is_false")]
        failed: bool,
    },
}

/// A tool that the model wants called.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The call's id, which its result names.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments, as the model wrote them: not checked against the tool's schema.
    pub arguments: Value,
    /// What the provider wants back, unread, with the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opaque: Option<Value>,
}

impl Message {
    /// Words of the one who asks.
    pub fn user(text: impl Into<String>) -> Self {
        Self::new(Role::User, vec![Part::text(text)])
    }

    /// Words of the model.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::new(Role::Assistant, vec![Part::text(text)])
    }

    /// What a tool gave back.
    pub fn tool_result(call: &ToolCall, content: impl Into<String>) -> Self {
        let result = Part::ToolResult {
            id: call.id.clone(),
            name: call.name.clone(),
            content: content.into(),
            failed: false,
        };
        Self::new(Role::User, vec![result])
    }

    /// A message of several parts.
    pub fn new(role: Role, parts: Vec<Part>) -> Self {
        Self { role, parts, cache: false }
    }

    /// Marks the end of a prefix worth caching: see [`cache`](Self::cache).
    pub fn cached(mut self) -> Self {
        self.cache = true;
        self
    }

    /// Its words, without reasoning and tools.
    pub fn text(&self) -> String {
        text(&self.parts)
    }
}

impl Part {
    /// Words.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }
}

/// The words among parts.
pub(crate) fn text(parts: &[Part]) -> String {
    let words = parts.iter().filter_map(|part| match part {
        Part::Text { text } => Some(text.as_str()),
        Part::Reasoning { .. } | Part::ToolCall(_) | Part::ToolResult { .. } => None,
    });
    words.collect()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
pub(crate) fn is_false(it: &bool) -> bool {
    !it
}
