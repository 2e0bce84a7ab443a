//! Parses recorded request bodies into [`Request`]s, which is the reverse of what the codecs do. Used only in tests.
//!
//! Fields that a [`Request`] does not support are removed from the recorded body and listed in the notes. If the
//! protocol allows two forms of the same thing, the body is converted to the form that the codec writes.

use serde_json::{Map, Value, json};

use super::recording::Protocol;
use crate::{Effort, Request, Schema, Tool, ToolChoice};

mod chat;
mod contents;
mod messages;
mod ollama;
mod responses;

/// A recorded request, parsed into a [`Request`].
pub(super) struct ParsedRequest {
    pub(super) model: String,
    pub(super) request: Request,
    pub(super) stream: bool,
}

/// Parses a recorded request body and removes unsupported fields from it.
pub(super) fn read(
    protocol: Protocol,
    path: &str,
    body: &mut Value,
    notes: &mut Vec<String>,
) -> ParsedRequest {
    normalize_token_limit(body);
    let in_path = path.rsplit('/').next().unwrap_or_default().split_once(':').unwrap_or_default();
    let model = body["model"].as_str().unwrap_or(in_path.0).to_owned();
    let stream = body["stream"] == true || in_path.1 == "streamGenerateContent";
    let request = match protocol {
        Protocol::Chat => chat::read(body, notes),
        Protocol::Responses => responses::read(body, notes),
        Protocol::Messages => messages::read(body, notes),
        Protocol::Contents => contents::read(body, notes),
        Protocol::Ollama => ollama::read(body, notes),
    };
    ParsedRequest { model, request, stream }
}

/// Renames the token limit `max_completion_tokens` to its older name `max_tokens`.
pub(super) fn normalize_token_limit(body: &mut Value) {
    if let Some(limit) = remove(body, "max_completion_tokens") {
        body["max_tokens"] = limit;
    }
}

/// Sets the options that all protocols have in common: token limit, temperature, seed and stop sequences.
fn put_common(request: &mut Request, options: &mut Value, names: Names) {
    if let Some(limit) = options[names.max_tokens].as_u64() {
        request.max_tokens = u32::try_from(limit).unwrap();
    }
    request.temperature = options["temperature"].as_f64();
    request.seed = options["seed"].as_u64();
    if options[names.stop].is_string() {
        // A single stop sequence may be a string instead of a list.
        options[names.stop] = json!([options[names.stop]]);
    }
    request.stop = texts(&options[names.stop]);
}

/// The names that a protocol uses for common fields.
#[derive(Clone, Copy)]
struct Names {
    max_tokens: &'static str,
    stop: &'static str,
}

fn texts(list: &Value) -> Vec<String> {
    let texts = list.as_array().into_iter().flatten();
    texts.filter_map(|it| it.as_str().map(str::to_owned)).collect()
}

/// Removes a field and returns its value, unless it is null.
fn remove(value: &mut Value, name: &str) -> Option<Value> {
    value.as_object_mut().and_then(|it| it.remove(name)).filter(|it| !it.is_null())
}

/// Removes a field that a [`Request`] does not support, and adds `what` to the notes.
fn remove_unsupported(value: &mut Value, name: &str, what: &str, notes: &mut Vec<String>) {
    if remove(value, name).is_some() {
        notes.push(what.to_owned());
    }
}

/// Removes a field and returns the list in it.
fn take_list(value: &mut Value, name: &str) -> Vec<Value> {
    match remove(value, name) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

/// Reads a field that is a text or a list of texts, and merges a list into one text. Parts of other types are removed
/// and listed in the notes.
fn merge_text(value: &mut Value, name: &str, notes: &mut Vec<String>) -> String {
    let content_text = match &value[name] {
        Value::String(content_text) => content_text.clone(),
        Value::Array(parts) => parts.iter().map(|part| part_text(part, notes)).collect(),
        _ => String::new(),
    };
    value[name] = content_text.clone().into();
    content_text
}

fn part_text(part: &Value, notes: &mut Vec<String>) -> String {
    if !part["cache_control"].is_null() {
        notes.push("a breakpoint inside a message".to_owned());
    }
    match part["text"].as_str() {
        Some(content_text) => content_text.to_owned(),
        None => {
            notes.push(format!("content `{}`", text(part, "type")));
            String::new()
        }
    }
}

/// Parses the tools, which may be wrapped in `function` objects.
fn tools(body: &mut Value, schema: &str, notes: &mut Vec<String>) -> Vec<Tool> {
    let mut tools = Vec::new();
    let mut kept = Vec::new();
    for tool in take_list(body, "tools") {
        let function = if tool["function"].is_object() { &tool["function"] } else { &tool };
        if !function[schema].is_object() {
            notes.push(format!("tool `{}`", text(&tool, "type")));
            continue;
        }
        tools.push(Tool {
            name: text(function, "name"),
            description: text(function, "description"),
            parameters: function[schema].clone(),
        });
        kept.push(tool);
    }
    if kept.is_empty() {
        remove_unsupported(body, "tool_choice", "a tool choice without supported tools", notes);
    } else {
        body["tools"] = kept.into();
    }
    tools
}

/// Parses the tool choice. Removes `auto`, because it is the default.
fn tool_choice(body: &mut Value) -> ToolChoice {
    let choice = &body["tool_choice"];
    let name = choice["function"]["name"].as_str().or(choice["name"].as_str());
    let word = choice.as_str().or(choice["type"].as_str()).unwrap_or("auto");
    match (word, name) {
        (_, Some(name)) => ToolChoice::Tool(name.to_owned()),
        ("required" | "any", _) => ToolChoice::Required,
        ("none", _) => ToolChoice::None,
        _ => {
            remove(body, "tool_choice");
            ToolChoice::Auto
        }
    }
}

fn effort(word: &Value) -> Option<Effort> {
    match word.as_str()? {
        "none" | "minimal" => Some(Effort::None),
        "low" => Some(Effort::Low),
        "medium" => Some(Effort::Medium),
        "high" => Some(Effort::High),
        _ => None,
    }
}

fn schema(name: &Value, schema: &Value) -> Schema {
    Schema { name: name.as_str().unwrap_or_default().to_owned(), schema: schema.clone() }
}

fn any_json() -> Schema {
    Schema { name: "any".to_owned(), schema: Value::Object(Map::new()) }
}
