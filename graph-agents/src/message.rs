//! Messages of a conversation, with ids, and their reducer.

mod arguments;
mod content;
mod like;
mod list;
mod llm_convert;
mod media;
mod merge;
mod missing_results;
mod pretty;
mod reducer;
mod trim;
mod types;

pub use content::Content;
pub(crate) use content::text_block;
pub use like::{message_from_json, messages_from_json};
pub use list::MessageList;
pub(crate) use llm_convert::{from_response, to_llm};
pub(crate) use media::{text_of, without_names};
pub use merge::add_messages;
pub(crate) use missing_results::add_missing_results;
pub use pretty::pretty;
pub(crate) use pretty::python_messages;
pub(crate) use reducer::WrittenMessages;
pub use reducer::{Messages, MessagesState, MessagesStateUpdate, NewMessages, messages_field};
pub use trim::{TokenCounter, TrimOptions, count_tokens_approximately, trim_messages};
pub(crate) use types::last_ai;
pub use types::{
    AiMessage, InvalidToolCall, Message, REMOVE_ALL, Status, TextMessage, ToolCall, ToolMessage,
};
