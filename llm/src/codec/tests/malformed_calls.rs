//! Tool calls whose arguments cannot be parsed.

use serde_json::{Value, json};

use crate::{
    Finish, InvalidToolCall, Listener, Message, Part, Piece, Request, Role,
    codec::{Protocol, Quirks, StreamReader},
};

const CHAT: Protocol = Protocol::OpenAiChat(Quirks::OPENAI);

/// Maximum size of an event, larger than all events of these tests.
const MAX_EVENT: usize = 1 << 20;

fn call(id: &str, arguments: &str) -> InvalidToolCall {
    InvalidToolCall {
        id: id.to_owned(),
        name: "weather".to_owned(),
        arguments: arguments.to_owned(),
        error: String::new(),
        opaque: None,
    }
}

/// Checks that the only part is an invalid call with a reason, and returns the call with an empty reason.
fn without_reason(content: Vec<Part>) -> InvalidToolCall {
    match <[Part; 1]>::try_from(content) {
        Ok([Part::InvalidToolCall(call)]) => {
            assert!(call.error.starts_with("the arguments are not"), "{}", call.error);
            InvalidToolCall { error: String::new(), ..call }
        }
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn check_body(protocol: Protocol, body: &Value, expect: &InvalidToolCall) {
    let answer = protocol.decode(body.to_string().as_bytes()).unwrap();
    assert_eq!(answer.finish, Finish::ToolCalls);
    assert_eq!(without_reason(answer.content), *expect);
}

#[track_caller]
fn check_stream(protocol: Protocol, events: &[Value], expect: &InvalidToolCall) {
    let mut body: String = match protocol {
        Protocol::Ollama => events.iter().map(|it| format!("{it}\n")).collect(),
        _ => events.iter().map(|it| format!("data: {it}\n\n")).collect(),
    };
    if protocol == CHAT {
        body.push_str("data: [DONE]\n\n");
    }
    let mut pieces = Vec::new();
    let mut on_piece = |piece| pieces.push(piece);
    let listener = &mut Listener::new(&mut on_piece);
    let mut reader = StreamReader::new(protocol, MAX_EVENT);
    reader.push(body.as_bytes(), listener).unwrap();
    let answer = reader.finish(listener).unwrap();
    assert_eq!(answer.finish, Finish::ToolCalls);
    let sent: Vec<_> = pieces
        .into_iter()
        .map(|it| match it {
            Piece::InvalidToolCall(call) => Part::InvalidToolCall(call),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(sent, answer.content);
    assert_eq!(without_reason(answer.content), *expect);
}

#[test]
fn openai_chat_keeps_malformed_calls() {
    let expect = call("c1", "{\"city\": Rome}");
    let function = json!({ "name": "weather", "arguments": expect.arguments });
    let calls = json!([{ "index": 0, "id": "c1", "function": function }]);
    let choice = |message: &str| json!({ "choices": [{ "index": 0, message: { "tool_calls": calls }, "finish_reason": "tool_calls" }] });
    check_body(CHAT, &choice("message"), &expect);
    check_stream(CHAT, &[choice("delta")], &expect);
}

#[test]
fn openai_chat_accepts_arguments_that_are_not_text() {
    let decode = |arguments: Value| {
        let calls =
            json!([{ "id": "c1", "function": { "name": "weather", "arguments": arguments } }]);
        let body = json!({ "choices": [{ "message": { "tool_calls": calls } }] });
        CHAT.decode(body.to_string().as_bytes()).unwrap().content
    };
    let content = decode(json!({ "city": "Rome" }));
    let [Part::ToolCall(valid)] = &content[..] else { panic!("the call is valid") };
    assert_eq!(valid.arguments, json!({ "city": "Rome" }));
    assert_eq!(without_reason(decode(json!([1]))), call("c1", "[1]"));
}

#[test]
fn openai_responses_keep_malformed_calls() {
    let expect = call("c1", "{\"city\": \"Ro");
    let item = json!({
        "type": "function_call", "call_id": "c1", "name": "weather", "arguments": expect.arguments,
    });
    let response = json!({ "status": "completed", "output": [item] });
    check_body(Protocol::OpenAiResponses, &response, &expect);
    let events = [
        json!({ "type": "response.output_item.done", "item": item }),
        json!({ "type": "response.completed", "response": response }),
    ];
    check_stream(Protocol::OpenAiResponses, &events, &expect);
}

#[test]
fn anthropic_keeps_malformed_calls() {
    let block = json!({ "type": "tool_use", "id": "c1", "name": "weather", "input": ["Rome"] });
    let body = json!({ "content": [block], "stop_reason": "tool_use" });
    check_body(Protocol::Anthropic, &body, &call("c1", "[\"Rome\"]"));
    let block = json!({ "type": "tool_use", "id": "c1", "name": "weather", "input": {} });
    let delta = |text: &str| {
        let delta = json!({ "type": "input_json_delta", "partial_json": text });
        json!({ "type": "content_block_delta", "index": 0, "delta": delta })
    };
    let events = [
        json!({ "type": "content_block_start", "index": 0, "content_block": block }),
        delta("{\"city\":"),
        delta(" Rome}"),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" } }),
        json!({ "type": "message_stop" }),
    ];
    check_stream(Protocol::Anthropic, &events, &call("c1", "{\"city\": Rome}"));
}

#[test]
fn gemini_keeps_malformed_calls() {
    let function = json!({ "name": "weather", "args": ["Rome"] });
    let part = json!({ "functionCall": function, "thoughtSignature": "s" });
    let candidate = json!({ "content": { "parts": [part] }, "finishReason": "STOP" });
    let body = json!({ "candidates": [candidate] });
    let opaque = Some(json!({ "thoughtSignature": "s" }));
    let expect = InvalidToolCall { opaque, ..call("nameless-0", "[\"Rome\"]") };
    check_body(Protocol::Gemini, &body, &expect);
    check_stream(Protocol::Gemini, &[body], &expect);
}

#[test]
fn ollama_keeps_malformed_calls() {
    let expect = call("nameless-0", "city: Rome");
    let function = json!({ "name": "weather", "arguments": "city: Rome" });
    let message = json!({ "content": "", "tool_calls": [{ "function": function }] });
    let body = json!({ "message": message, "done": true });
    check_body(Protocol::Ollama, &body, &expect);
    let events = [json!({ "message": message, "done": false }), json!({ "done": true })];
    check_stream(Protocol::Ollama, &events, &expect);
}

#[test]
fn malformed_calls_are_sent_back_as_objects() {
    let invalid = Part::InvalidToolCall(call("c1", "{city"));
    let request = Request::conversation(vec![
        Message::user("Does it rain?"),
        Message::new(Role::Assistant, vec![invalid]),
    ]);
    let encode = |protocol: Protocol| protocol.encode("m", &request, false).unwrap().body;
    let arguments = json!({ "invalid_arguments": "{city" });
    let anthropic = encode(Protocol::Anthropic);
    assert_eq!(anthropic["messages"][1]["content"][0]["input"], arguments);
    let gemini = encode(Protocol::Gemini);
    assert_eq!(gemini["contents"][1]["parts"][0]["functionCall"]["args"], arguments);
    let ollama = encode(Protocol::Ollama);
    let function = &ollama["messages"][1]["tool_calls"][0]["function"];
    assert_eq!(function["arguments"], arguments);
    let text = arguments.to_string();
    let chat = encode(CHAT);
    assert_eq!(chat["messages"][1]["tool_calls"][0]["function"]["arguments"], text);
    let responses = encode(Protocol::OpenAiResponses);
    assert_eq!(responses["input"][1]["arguments"], text);
}
