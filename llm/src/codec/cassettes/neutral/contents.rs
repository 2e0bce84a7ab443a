//! Parses the bodies of Gemini's `generateContent` API.

use serde_json::{Value, json};

use super::{
    Names, effort, merge_text, put_common, remove, remove_unsupported, schema, take_list, text,
    texts,
};
use crate::{Effort, Message, Part, Request, Role, Tool, ToolCall, ToolChoice};

pub(super) fn read(body: &mut Value, notes: &mut Vec<String>) -> Request {
    let mut request = Request::conversation(Vec::new());
    if body["systemInstruction"].is_object() {
        let content_text = merge_text(&mut body["systemInstruction"], "parts", notes);
        // The API ignores the role of the system instruction, so it is removed.
        body["systemInstruction"] = json!({ "parts": [{ "text": content_text }] });
        request.system = Some(content_text);
    }
    let mut kept = Vec::new();
    for mut content in take_list(body, "contents") {
        if let Some(message) = message(&mut content, notes) {
            request.messages.push(message);
            kept.push(content);
        }
    }
    body["contents"] = kept.into();
    let config = &mut body["generationConfig"];
    put_common(
        &mut request,
        config,
        Names { max_tokens: "maxOutputTokens", stop: "stopSequences" },
    );
    put_response_format(&mut request, config, notes);
    put_thinking(&mut request, config, notes);
    put_tools(&mut request, body, notes);
    put_tool_choice(&mut request, body, notes);
    request
}

fn message(content: &mut Value, notes: &mut Vec<String>) -> Option<Message> {
    let role = if content["role"] == "model" { Role::Assistant } else { Role::User };
    let mut parts = Vec::new();
    let mut kept = Vec::new();
    for mut part in take_list(content, "parts") {
        if part["thought"] == false {
            // False is the default, so the field is removed.
            remove(&mut part, "thought");
        }
        let read = read_part(&mut part, notes);
        if !read.is_empty() {
            parts.extend(read);
            kept.push(part);
        }
    }
    content["parts"] = kept.into();
    (!parts.is_empty()).then(|| Message::new(role, parts))
}

fn read_part(part: &mut Value, notes: &mut Vec<String>) -> Vec<Part> {
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
        remove_unsupported(function, "parts", "images in tool results", notes);
        let id = function["id"].as_str().unwrap_or("nameless-0").to_owned();
        let content = function["response"].to_string();
        return vec![Part::ToolResult { id, name: text(function, "name"), content, failed: false }];
    }
    match (part["thought"] == true, part["text"].is_string(), opaque) {
        (true, _, Some(opaque)) => {
            vec![Part::Reasoning { text: content_text, opaque: Some(opaque) }]
        }
        (true, _, None) => {
            notes.push("a thought without a signature".to_owned());
            Vec::new()
        }
        (false, true, opaque) => {
            let opaque = opaque.map(|it| Part::Reasoning { text: String::new(), opaque: Some(it) });
            [Part::text(content_text)].into_iter().chain(opaque).collect()
        }
        (false, false, _) => {
            let kind = part.as_object().and_then(|it| it.keys().next().cloned());
            notes.push(format!("content `{}`", kind.unwrap_or_default()));
            Vec::new()
        }
    }
}

fn put_response_format(request: &mut Request, config: &mut Value, notes: &mut Vec<String>) {
    if let Some(older) = remove(config, "responseSchema") {
        // The codec writes the newer field for the same schema.
        config["responseJsonSchema"] = older;
    }
    if config["responseJsonSchema"].is_object() {
        request.schema = Some(schema(&Value::Null, &config["responseJsonSchema"]));
    } else {
        remove_unsupported(config, "responseMimeType", "a response format without a schema", notes);
    }
}

fn put_thinking(request: &mut Request, config: &mut Value, notes: &mut Vec<String>) {
    let thinking = &config["thinkingConfig"];
    let budget = thinking["thinkingBudget"].as_i64();
    let budget = budget.map(|it| if it == 0 { Effort::None } else { Effort::Low });
    request.effort = effort(&thinking["thinkingLevel"]).or(budget);
    if request.effort.is_none() {
        remove_unsupported(config, "thinkingConfig", "reasoning without an effort", notes);
    }
}

fn put_tools(request: &mut Request, body: &mut Value, notes: &mut Vec<String>) {
    let mut kept = Vec::new();
    for mut tool in take_list(body, "tools") {
        let mut functions = take_list(&mut tool, "functionDeclarations");
        for (other, value) in tool.as_object().into_iter().flatten() {
            if !value.is_null() {
                notes.push(format!("tool `{other}`"));
            }
        }
        for function in &mut functions {
            if let Some(parameters) = remove(function, "parameters") {
                // The codec writes the newer field for the same schema.
                function["parametersJsonSchema"] = parameters;
            }
            let parameters = function["parametersJsonSchema"].clone();
            let (name, description) = (text(function, "name"), text(function, "description"));
            request.tools.push(Tool { name, description, parameters });
        }
        if !functions.is_empty() {
            kept.push(json!({ "functionDeclarations": functions }));
        }
    }
    if !kept.is_empty() {
        body["tools"] = kept.into();
    }
}

fn put_tool_choice(request: &mut Request, body: &mut Value, notes: &mut Vec<String>) {
    if request.tools.is_empty() {
        return remove_unsupported(
            body,
            "toolConfig",
            "a tool choice without supported tools",
            notes,
        );
    }
    let calling = &mut body["toolConfig"]["functionCallingConfig"];
    if let Some(names) = remove(calling, "allowed_function_names") {
        // The API accepts this field in snake case and in camel case.
        calling["allowedFunctionNames"] = names;
    }
    let names = texts(&calling["allowedFunctionNames"]);
    request.tool_choice = match (calling["mode"].as_str(), names.as_slice()) {
        (Some("ANY"), [name]) => ToolChoice::Tool(name.clone()),
        (Some("ANY"), []) => ToolChoice::Required,
        (Some("ANY"), _) => {
            remove_unsupported(calling, "allowedFunctionNames", "a choice of several tools", notes);
            ToolChoice::Required
        }
        (Some("NONE"), _) => ToolChoice::None,
        _ => {
            remove(body, "toolConfig");
            ToolChoice::Auto
        }
    };
}
