//! Conversion between the messages of this crate and those of the crate `llm`.

use llm::{Part, Role};
use serde_json::Value;

use super::{
    arguments::repair_arguments,
    content::Content,
    media,
    types::{AiMessage, InvalidToolCall, Message, Status, ToolCall, ToolMessage},
};

/// Converts messages for a request. Returns the system prompt and the conversation.
///
/// System messages at the beginning are joined to the system prompt, because a request has only one. Consecutive tool
/// results become one message, because providers expect the results of parallel calls together. Images, documents and
/// audio in tool results follow all results of that message, because most providers accept only text in a result.
pub(crate) fn to_llm(
    system: Option<&Content>,
    messages: &[Message],
) -> (Option<String>, Vec<llm::Message>) {
    let is_system = |it: &&Message| matches!(it, Message::System(_) | Message::Remove { .. });
    let n_leading = messages.iter().take_while(is_system).count();
    let (leading, rest) = messages.split_at(n_leading);
    let mut conversation: Vec<llm::Message> = Vec::new();
    for message in rest {
        match message {
            Message::System(it) => conversation.push(llm::Message::system(it.content.text())),
            Message::Human(it) => {
                conversation.push(llm::Message::new(Role::User, media::parts(&it.content)));
            }
            Message::Ai(it) => {
                conversation.push(llm::Message::new(Role::Assistant, ai_parts(it)));
            }
            Message::Tool(it) => {
                put_result(it, &mut conversation);
                continue;
            }
            Message::Remove { .. } => continue,
        }
        if let Some(converted) = conversation.last_mut() {
            converted.id = message.id().map(str::to_owned);
            converted.name = message.name().map(str::to_owned);
        }
    }
    let leading = leading.iter().filter(|it| it.kind() == "system").map(Message::text);
    let system: Vec<_> = system.map(Content::text).into_iter().chain(leading).collect();
    ((!system.is_empty()).then(|| system.join("\n\n")), conversation)
}

/// Adds a tool result to the last message if that contains results, and to a new message otherwise.
fn put_result(result: &ToolMessage, conversation: &mut Vec<llm::Message>) {
    let is_result = |it: &Part| matches!(it, Part::ToolResult { .. });
    if !conversation.last().is_some_and(|it| it.parts.first().is_some_and(is_result)) {
        conversation.push(llm::Message::new(Role::User, Vec::new()));
    }
    let Some(message) = conversation.last_mut() else { return };
    let name = result.name.clone().unwrap_or_default();
    let is_media = |it: &Part| matches!(it, Part::Media(_));
    let (media, texts): (Vec<_>, Vec<_>) =
        media::parts(&result.content).into_iter().partition(is_media);
    let mut content = llm::Message::new(Role::User, texts).text();
    if !media.is_empty() {
        content.push_str("\n[media follow after the results]");
        message.parts.push(Part::text(format!("Media in the result of `{name}`:")));
        message.parts.extend(media);
    }
    let n_results = message.parts.iter().take_while(|it| is_result(it)).count();
    let part = Part::ToolResult {
        id: result.tool_call_id.clone(),
        name,
        content,
        failed: result.status == Status::Error,
    };
    message.parts.insert(n_results, part);
}

fn ai_parts(message: &AiMessage) -> Vec<Part> {
    let text = message.content.text();
    let text = (!text.is_empty()).then(|| Part::text(text));
    let calls = message.tool_calls.iter().map(|call| {
        Part::ToolCall(llm::ToolCall {
            id: call.id().to_owned(),
            name: call.name.clone(),
            arguments: Value::Object(call.args.clone()),
            opaque: call.opaque.clone(),
        })
    });
    let invalid = message.invalid_tool_calls.iter().filter_map(invalid_part);
    message.reasoning.iter().cloned().chain(text).chain(calls).chain(invalid).collect()
}

/// Converts an invalid call. Returns `None` if the call has no id: no result can refer to such a call, and providers
/// reject a call without a result.
fn invalid_part(call: &InvalidToolCall) -> Option<Part> {
    let call = call.clone();
    Some(Part::InvalidToolCall(llm::InvalidToolCall {
        id: call.id?,
        name: call.name.unwrap_or_else(|| "unknown".to_owned()),
        arguments: call.args.unwrap_or_default(),
        error: call.error.unwrap_or_default(),
        opaque: call.opaque,
    }))
}

/// Converts a model's response. A tool call whose arguments cannot be repaired becomes an invalid call.
pub(crate) fn from_response(response: llm::Response) -> AiMessage {
    let mut message = AiMessage::new(response.text());
    message.usage = response.usage;
    message.logprobs = response.logprobs;
    for part in response.content {
        match part {
            Part::ToolCall(llm::ToolCall { id, name, arguments: Value::Object(args), opaque }) => {
                message.tool_calls.push(ToolCall { name, args, id: Some(id), opaque });
            }
            Part::ToolCall(llm::ToolCall { id, name, arguments, opaque }) => {
                let error = "the arguments are not a JSON object".to_owned();
                let arguments = arguments.to_string();
                let call = llm::InvalidToolCall { id, name, arguments, error, opaque };
                put_invalid(call, &mut message);
            }
            Part::InvalidToolCall(call) => put_invalid(call, &mut message),
            reasoning @ Part::Reasoning { .. } => message.reasoning.push(reasoning),
            Part::Text { .. } | Part::Media(_) | Part::ToolResult { .. } => {}
        }
    }
    message
}

/// Adds a call with malformed arguments: as a tool call if they can be repaired, otherwise as an invalid call.
fn put_invalid(call: llm::InvalidToolCall, message: &mut AiMessage) {
    let llm::InvalidToolCall { id, name, arguments, error, opaque } = call;
    let id = Some(id);
    match repair_arguments(&arguments) {
        Some(args) => message.tool_calls.push(ToolCall { name, args, id, opaque }),
        None => message.invalid_tool_calls.push(InvalidToolCall {
            name: Some(name),
            args: Some(arguments),
            id,
            error: Some(error),
            opaque,
        }),
    }
}

#[cfg(test)]
mod tests {
    use llm::Media;
    use serde_json::json;

    use super::*;

    #[test]
    fn responses_are_converted() {
        let call = |id: &str, arguments: &str| {
            Part::InvalidToolCall(llm::InvalidToolCall {
                id: id.to_owned(),
                name: "weather".to_owned(),
                arguments: arguments.to_owned(),
                error: "not JSON".to_owned(),
                opaque: Some(json!("o")),
            })
        };
        let content = vec![call("1", "{city: 'Rome'}"), call("2", "{\"city\": \"Ro")];
        let logprob =
            llm::TokenLogprob { token: "a".to_owned(), logprob: -0.5, alternatives: Vec::new() };
        let response = llm::Response {
            content: content.clone(),
            model: llm::ModelId::new("p", "m"),
            finish: llm::Finish::ToolCalls,
            usage: None,
            latency: std::time::Duration::ZERO,
            cost: None,
            logprobs: vec![logprob.clone()],
        };
        let message = from_response(response);
        assert_eq!(message.logprobs, [logprob]);
        let [repaired] = &message.tool_calls[..] else { panic!("{message:?}") };
        assert_eq!((repaired.id(), &repaired.args["city"]), ("1", &json!("Rome")));
        let [invalid] = &message.invalid_tool_calls[..] else { panic!("{message:?}") };
        assert_eq!(invalid.error.as_deref(), Some("not JSON"));
        // The invalid call is sent back, because its result refers to it.
        assert_eq!(ai_parts(&message)[1], content[1]);
    }

    #[test]
    fn media_in_results_follow_all_results() {
        let call = |id: &str| ToolCall::new("look", json!({}), id);
        let image = json!({"type": "image", "base64": "cG5n", "mime_type": "image/png"});
        let seen = vec![json!({"type": "text", "text": "seen"}), image];
        let messages = [
            Message::system("Be brief."),
            Message::human(vec![
                json!("What is"),
                json!({"type": "image", "url": "https://a.example"}),
            ]),
            Message::system("Be briefer."),
            Message::ai("").with_id("7"),
            ToolMessage::success(&call("1"), seen).into(),
            ToolMessage::error(&call("2"), "failed").into(),
        ];
        let (system, converted) = to_llm(None, &messages);
        assert_eq!(system.as_deref(), Some("Be brief."));
        let url = Part::Media(Media::image_url("https://a.example"));
        assert_eq!(converted[0].parts, [Part::text("What is"), url]);
        assert_eq!((converted[1].role, converted[1].text()), (Role::System, "Be briefer.".into()));
        assert_eq!(converted[2].id.as_deref(), Some("7"));
        let result = |id: &str, content: &str, failed| Part::ToolResult {
            id: id.to_owned(),
            name: "look".to_owned(),
            content: content.to_owned(),
            failed,
        };
        assert_eq!(
            converted[3].parts,
            [
                result("1", "seen\n[media follow after the results]", false),
                result("2", "failed", true),
                Part::text("Media in the result of `look`:"),
                Part::Media(Media::image("image/png", b"png")),
            ]
        );
        assert_eq!(converted.len(), 4);
    }
}
