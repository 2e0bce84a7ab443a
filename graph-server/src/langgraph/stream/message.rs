//! Messages in the form that clients of LangGraph expect.

use serde_json::{Map, Value, json};

/// Types of messages.
const TYPES: [&str; 8] = [
    "human", "ai", "system", "tool", "function", "developer", "AIMessageChunk", "HumanMessageChunk",
];

/// Returns whether a value is a message.
pub(in crate::langgraph) fn is_message(value: &Value) -> bool {
    value.get("content").is_some()
        && value.get("type").and_then(Value::as_str).is_some_and(|it| TYPES.contains(&it))
}

/// Returns whether a message is one piece of a message. Pieces that models send have no id, because the id of the whole
/// message is chosen later.
pub(in crate::langgraph) fn is_piece(message: &Value) -> bool {
    match message["type"].as_str() {
        Some("ai") => id(message).is_none(),
        kind => kind.is_some_and(|it| it.ends_with("Chunk")),
    }
}

pub(in crate::langgraph) fn id(message: &Value) -> Option<&str> {
    message["id"].as_str()
}

/// Completes a piece of a message: sets its type, its id and the fields that clients expect.
pub(in crate::langgraph) fn complete_piece(piece: Value, id: &str) -> Value {
    let mut piece = complete(piece);
    piece["type"] = json!("AIMessageChunk");
    piece["id"] = json!(id);
    for (field, default) in [("tool_call_chunks", json!([])), ("chunk_position", Value::Null)] {
        if piece.get(field).is_none() {
            piece[field] = default;
        }
    }
    piece
}

/// Adds the fields that clients expect in every message.
pub(in crate::langgraph) fn complete(message: Value) -> Value {
    let Value::Object(mut fields) = message else { return message };
    let mut defaults = vec![
        ("additional_kwargs", json!({})),
        ("response_metadata", json!({})),
        ("name", Value::Null),
        ("id", Value::Null),
    ];
    match fields.get("type").and_then(Value::as_str) {
        Some("ai" | "AIMessageChunk") => defaults.extend([
            ("tool_calls", json!([])),
            ("invalid_tool_calls", json!([])),
            ("usage_metadata", Value::Null),
        ]),
        Some("tool") => {
            defaults.extend([("artifact", Value::Null), ("status", json!("success"))]);
        }
        _ => {}
    }
    for (name, value) in defaults {
        fields.entry(name).or_insert(value);
    }
    if let Some(Value::Array(calls)) = fields.get_mut("tool_calls") {
        for call in calls.iter_mut().filter_map(Value::as_object_mut) {
            call.entry("type").or_insert_with(|| json!("tool_call"));
        }
    }
    Value::Object(fields)
}

/// Completes the messages among the fields of a state or an update: fields that are a message or a list of messages.
pub(in crate::langgraph) fn complete_fields(mut values: Value) -> Value {
    let complete_in_place = |value: &mut Value| {
        if is_message(value) {
            *value = complete(value.take());
        }
    };
    for field in values.as_object_mut().into_iter().flat_map(Map::values_mut) {
        match field {
            Value::Array(items) => items.iter_mut().for_each(complete_in_place),
            field => complete_in_place(field),
        }
    }
    values
}

/// Appends a piece to the message so far, and returns the longer message.
pub(in crate::langgraph) fn append(so_far: Option<Value>, piece: &Value) -> Value {
    let mut message = so_far.unwrap_or_else(|| {
        let mut first = piece.clone();
        first["type"] = json!("ai");
        first["content"] = match &piece["content"] {
            Value::Array(_) => json!([]),
            _ => json!(""),
        };
        if let Some(fields) = first.as_object_mut() {
            fields.remove("tool_call_chunks");
            fields.remove("chunk_position");
            fields.insert("tool_calls".to_owned(), json!([]));
        }
        first
    });
    append_content(&mut message, &piece["content"]);
    if let (Some(calls), Some(more)) =
        (message["tool_calls"].as_array_mut(), piece["tool_calls"].as_array())
    {
        calls.extend(more.iter().cloned());
    }
    message
}

fn append_content(message: &mut Value, content: &Value) {
    match (&mut message["content"], content) {
        (Value::String(text), Value::String(more)) => text.push_str(more),
        (Value::Array(blocks), Value::Array(more)) => blocks.extend(more.iter().cloned()),
        (Value::String(text), Value::Array(more)) => {
            let mut blocks: Vec<Value> = Vec::new();
            if !text.is_empty() {
                blocks.push(json!({ "type": "text", "text": text }));
            }
            blocks.extend(more.iter().cloned());
            message["content"] = Value::Array(blocks);
        }
        (Value::Array(blocks), Value::String(more)) if !more.is_empty() => {
            blocks.push(json!({ "type": "text", "text": more }));
        }
        _ => {}
    }
}

/// Returns the messages in the values of an update.
pub(in crate::langgraph) fn messages_in(fields: &Map<String, Value>) -> Vec<Value> {
    let mut found = Vec::new();
    for value in fields.values() {
        match value {
            Value::Array(items) => found.extend(items.iter().filter(|it| is_message(it)).cloned()),
            value if is_message(value) => found.push(value.clone()),
            _ => {}
        }
    }
    found
}
