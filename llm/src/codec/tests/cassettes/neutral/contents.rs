//! Parses the bodies of Gemini's `generateContent` API.

use serde_json::{Value, json};

use super::fields::{
    effort, merge_text, put_common, remove, remove_unsupported, schema, take_list, text, texts,
};
use crate::{Effort, Message, Part, Request, Role, Tool, ToolCall, ToolChoice};

pub(super) fn read(body: &mut Value) -> Request {
    let mut request = Request::conversation(Vec::new());
    if body["systemInstruction"].is_object() {
        let content_text = merge_text(&mut body["systemInstruction"], "parts");
        // Drops the role of the system instruction, because the API ignores it and our codec does not write it.
        body["systemInstruction"] = json!({ "parts": [{ "text": content_text }] });
        request.system = Some(content_text);
    }
    let mut kept = Vec::new();
    for mut content in take_list(body, "contents") {
        if let Some(message) = message(&mut content) {
            request.messages.push(message);
            kept.push(content);
        }
    }
    body["contents"] = kept.into();
    let config = &mut body["generationConfig"];
    put_common(&mut request, config, "maxOutputTokens", "stopSequences");
    put_response_format(&mut request, config);
    put_thinking(&mut request, config);
    put_tools(&mut request, body);
    put_tool_choice(&mut request, body);
    request
}

fn message(content: &mut Value) -> Option<Message> {
    let role = if content["role"] == "model" { Role::Assistant } else { Role::User };
    let mut parts = Vec::new();
    let mut kept = Vec::new();
    for mut part in take_list(content, "parts") {
        if part["thought"] == false {
            // Removes `"thought": false`, because false is the default and our codec omits it.
            remove(&mut part, "thought");
        }
        let read = read_part(&mut part);
        if !read.is_empty() {
            parts.extend(read);
            kept.push(part);
        }
    }
    content["parts"] = kept.into();
    (!parts.is_empty()).then(|| Message::new(role, parts))
}

fn read_part(part: &mut Value) -> Vec<Part> {
    let opaque = part["thoughtSignature"].as_str().map(|it| json!({ "thoughtSignature": it }));
    let content_text = text(part, "text");
    if part["functionCall"].is_object() {
        let function = &part["functionCall"];
        let id = function["id"].as_str().unwrap_or("nameless-0").to_owned();
        let arguments = function["args"].clone();
        return vec![Part::ToolCall(ToolCall {
            id,
            name: text(function, "name"),
            arguments,
            opaque,
        })];
    }
    if part["functionResponse"].is_object() {
        let function = &mut part["functionResponse"];
        remove_unsupported(function, "parts");
        let id = function["id"].as_str().unwrap_or("nameless-0").to_owned();
        let content = function["response"].to_string();
        return vec![Part::ToolResult { id, name: text(function, "name"), content, failed: false }];
    }
    match (part["thought"] == true, part["text"].is_string(), opaque) {
        (true, _, Some(opaque)) => {
            vec![Part::Reasoning { text: content_text, opaque: Some(opaque) }]
        }
        (false, true, opaque) => {
            let opaque = opaque.map(|it| Part::Reasoning { text: String::new(), opaque: Some(it) });
            [Part::text(content_text)].into_iter().chain(opaque).collect()
        }
        // Skips thoughts without a signature, and content that is not supported.
        (true, _, None) | (false, false, _) => Vec::new(),
    }
}

fn put_response_format(request: &mut Request, config: &mut Value) {
    if let Some(older) = remove(config, "responseSchema") {
        // Moves the schema to the newer field, because our codec writes that one.
        config["responseJsonSchema"] = older;
    }
    if config["responseJsonSchema"].is_object() {
        request.schema = Some(schema(&Value::Null, &config["responseJsonSchema"]));
    } else {
        remove_unsupported(config, "responseMimeType");
    }
}

fn put_thinking(request: &mut Request, config: &mut Value) {
    let thinking = &config["thinkingConfig"];
    let budget = thinking["thinkingBudget"].as_i64();
    let budget = budget.map(|it| if it == 0 { Effort::None } else { Effort::Low });
    request.effort = effort(&thinking["thinkingLevel"]).or(budget);
    if request.effort.is_none() {
        remove_unsupported(config, "thinkingConfig");
    }
}

fn put_tools(request: &mut Request, body: &mut Value) {
    let mut kept = Vec::new();
    for mut tool in take_list(body, "tools") {
        let mut functions = take_list(&mut tool, "functionDeclarations");
        for function in &mut functions {
            if let Some(parameters) = remove(function, "parameters") {
                // Moves the schema to the newer field, because our codec writes that one.
                function["parametersJsonSchema"] = parameters;
            }
            let parameters = function["parametersJsonSchema"].clone();
            let (name, description) = (text(function, "name"), text(function, "description"));
            request.tools.push(Tool::new(name, description, parameters));
        }
        if !functions.is_empty() {
            kept.push(json!({ "functionDeclarations": functions }));
        }
    }
    if !kept.is_empty() {
        body["tools"] = kept.into();
    }
}

fn put_tool_choice(request: &mut Request, body: &mut Value) {
    if request.tools.is_empty() {
        return remove_unsupported(body, "toolConfig");
    }
    let calling = &mut body["toolConfig"]["functionCallingConfig"];
    if let Some(names) = remove(calling, "allowed_function_names") {
        // Renames the field to camel case, because our codec writes that form. The API accepts both.
        calling["allowedFunctionNames"] = names;
    }
    let names = texts(&calling["allowedFunctionNames"]);
    request.tool_choice = match (calling["mode"].as_str(), names.as_slice()) {
        (Some("ANY"), [name]) => ToolChoice::Tool(name.clone()),
        (Some("ANY"), []) => ToolChoice::Required,
        (Some("ANY"), _) => {
            remove_unsupported(calling, "allowedFunctionNames");
            ToolChoice::Required
        }
        (Some("NONE"), _) => ToolChoice::None,
        _ => {
            remove(body, "toolConfig");
            ToolChoice::Auto
        }
    };
}
