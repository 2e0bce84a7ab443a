//! Reads and normalises the fields that several protocols share.

use serde_json::{Map, Value, json};

use crate::{Effort, Request, Schema, Tool, ToolChoice};

/// Sets the options that all protocols have in common: token limit, temperature, seed and stop sequences. The names of
/// the token limit and of the stop sequences depend on the protocol.
pub(super) fn put_common(request: &mut Request, options: &mut Value, max_tokens: &str, stop: &str) {
    if let Some(limit) = options[max_tokens].as_u64() {
        request.max_tokens = u32::try_from(limit).unwrap();
    }
    request.temperature = options["temperature"].as_f64();
    request.seed = options["seed"].as_u64();
    if options[stop].is_string() {
        // Converts a stop sequence that is a plain string to a list, because our codec writes a list.
        options[stop] = json!([options[stop]]);
    }
    request.stop = texts(&options[stop]);
}

pub(super) fn texts(list: &Value) -> Vec<String> {
    let texts = list.as_array().into_iter().flatten();
    texts.filter_map(|it| it.as_str().map(str::to_owned)).collect()
}

/// Removes a field and returns its value, or `None` if the field is missing or null.
pub(super) fn remove(value: &mut Value, name: &str) -> Option<Value> {
    value.as_object_mut().and_then(|it| it.remove(name)).filter(|it| !it.is_null())
}

/// Removes a field that a [`Request`] does not support.
pub(super) fn remove_unsupported(value: &mut Value, name: &str) {
    remove(value, name);
}

/// Removes a field and returns the list in it.
pub(super) fn take_list(value: &mut Value, name: &str) -> Vec<Value> {
    match remove(value, name) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

pub(super) fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

/// Reads a field that is a text or a list of texts, and merges a list into one text. Parts of other types are removed.
pub(super) fn merge_text(value: &mut Value, name: &str) -> String {
    let content_text = match &value[name] {
        Value::String(content_text) => content_text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    };
    value[name] = content_text.clone().into();
    content_text
}

/// Parses the tools, which may be wrapped in `function` objects.
pub(super) fn tools(body: &mut Value, schema: &str) -> Vec<Tool> {
    let mut tools = Vec::new();
    let mut kept = Vec::new();
    for tool in take_list(body, "tools") {
        let function = if tool["function"].is_object() { &tool["function"] } else { &tool };
        if !function[schema].is_object() {
            continue;
        }
        tools.push(Tool::new(
            text(function, "name"),
            text(function, "description"),
            function[schema].clone(),
        ));
        kept.push(tool);
    }
    if kept.is_empty() {
        remove_unsupported(body, "tool_choice");
    } else {
        body["tools"] = kept.into();
    }
    tools
}

/// Parses the tool choice. Removes `auto`, because it is the default.
pub(super) fn tool_choice(body: &mut Value) -> ToolChoice {
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

pub(super) fn effort(word: &Value) -> Option<Effort> {
    match word.as_str()? {
        "none" | "minimal" => Some(Effort::None),
        "low" => Some(Effort::Low),
        "medium" => Some(Effort::Medium),
        "high" => Some(Effort::High),
        _ => None,
    }
}

pub(super) fn schema(name: &Value, schema: &Value) -> Schema {
    Schema { name: name.as_str().unwrap_or_default().to_owned(), schema: schema.clone() }
}

pub(super) fn any_json() -> Schema {
    Schema { name: "any".to_owned(), schema: Value::Object(Map::new()) }
}
