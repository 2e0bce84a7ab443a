//! Conversion of a tool's result into the content of a message.

use serde_json::Value;

use crate::{message::Content, notation};

/// Types of content blocks that providers accept in tool results.
const BLOCK_TYPES: [&str; 8] = [
    "text", "image_url", "image", "json", "search_result", "custom_tool_call_output", "document",
    "file",
];

/// Converts a result into content: a text and a list of content blocks stay as they are; other values become JSON.
pub(crate) fn content_of(value: Value) -> Content {
    let is_block = |it: &Value| it["type"].as_str().is_some_and(|kind| BLOCK_TYPES.contains(&kind));
    match value {
        Value::String(text) => Content::Text(text),
        Value::Array(items) if items.iter().all(is_block) => Content::Blocks(items),
        other => Content::Text(notation::spaced_json(&other)),
    }
}
