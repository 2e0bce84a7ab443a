//! Messages as XML-like text for the model that writes summaries.

use serde_json::Value;

use crate::{message::Message, notation};

/// Formats messages, one element each.
pub(super) fn format(messages: &[Message]) -> String {
    messages.iter().map(element).collect::<Vec<_>>().join("\n")
}

fn element(message: &Message) -> String {
    let (kind, text) = (message.kind(), escape(&message.text()));
    let calls = message.as_ai().map_or(&[][..], |it| &it.tool_calls);
    if calls.is_empty() {
        return format!("<message type=\"{kind}\">{text}</message>");
    }
    let mut lines = vec![format!("<message type=\"{kind}\">")];
    if !text.is_empty() {
        lines.push(format!("  <content>{text}</content>"));
    }
    lines.extend(calls.iter().map(|call| {
        let args = escape(&notation::spaced_json(&Value::Object(call.args.clone())));
        let (id, name) = (attribute(call.id()), attribute(&call.name));
        format!("  <tool_call id=\"{id}\" name=\"{name}\">{args}</tool_call>")
    }));
    lines.push("</message>".to_owned());
    lines.join("\n")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn attribute(text: &str) -> String {
    escape(text).replace('"', "&quot;")
}
