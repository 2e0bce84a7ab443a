//! Formats messages as human-readable text.

use std::fmt::Write;

use super::types::Message;
use crate::notation;

/// Formats messages for a terminal: a heading per message, then its text and tool calls.
///
/// ```
/// use graph_agents::{Message, pretty};
///
/// assert_eq!(pretty(&[Message::human("hello")]), "── human ──\nhello\n");
/// ```
pub fn pretty(messages: &[Message]) -> String {
    let mut out = String::new();
    for message in messages {
        write_message(&mut out, message).expect("writing to a string does not fail");
    }
    out
}

fn write_message(out: &mut String, message: &Message) -> std::fmt::Result {
    match message.name() {
        Some(name) => writeln!(out, "── {} ({name}) ──", message.kind())?,
        None => writeln!(out, "── {} ──", message.kind())?,
    }
    let text = message.text();
    if !text.is_empty() {
        writeln!(out, "{text}")?;
    }
    for call in message.as_ai().iter().flat_map(|it| &it.tool_calls) {
        let args = serde_json::Value::Object(call.args.clone());
        writeln!(out, "→ {}({}) [{}]", call.name, notation::spaced_json(&args), call.id())?;
    }
    Ok(())
}

/// Formats messages like Python's `repr` of LangChain's message objects, for error texts.
pub(crate) fn python_messages(messages: &[Message]) -> String {
    let texts: Vec<_> = messages.iter().map(python_message).collect();
    format!("[{}]", texts.join(", "))
}

fn python_message(message: &Message) -> String {
    let class = match message {
        Message::Human(_) => "HumanMessage",
        Message::Ai(_) => "AIMessage",
        Message::System(_) => "SystemMessage",
        Message::Tool(_) => "ToolMessage",
        Message::Remove { .. } => "RemoveMessage",
    };
    let mut parts = vec![format!("content={}", notation::python_str(&message.text()))];
    parts.extend(message.name().map(|it| format!("name={}", notation::python_str(it))));
    parts.extend(
        message
            .as_tool()
            .map(|it| format!("tool_call_id={}", notation::python_str(&it.tool_call_id))),
    );
    format!("{class}({})", parts.join(", "))
}
