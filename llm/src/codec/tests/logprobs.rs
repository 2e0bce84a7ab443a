//! Log probabilities in responses.

use serde_json::{Value, json};

use crate::{
    TokenLogprob,
    codec::{Protocol, Quirks},
};

#[track_caller]
fn check(protocol: Protocol, body: &Value) {
    let answer = protocol.decode(body.to_string().as_bytes()).unwrap();
    let alternatives = vec![("a".to_owned(), -0.5), ("b".to_owned(), -1.5)];
    let expect = TokenLogprob { token: "a".to_owned(), logprob: -0.5, alternatives };
    assert_eq!(answer.logprobs, [expect]);
}

/// Returns the log probability of one token in OpenAI's format.
fn token() -> Value {
    let top = json!([{ "token": "a", "logprob": -0.5 }, { "token": "b", "logprob": -1.5 }]);
    json!({ "token": "a", "logprob": -0.5, "top_logprobs": top })
}

#[test]
fn openai_log_probabilities_are_decoded() {
    let choice = json!({
        "index": 0, "message": { "content": "a" }, "finish_reason": "stop",
        "logprobs": { "content": [token()] },
    });
    check(Protocol::OpenAiChat(Quirks::OPENAI), &json!({ "choices": [choice] }));
    let content = json!([{ "type": "output_text", "text": "a", "logprobs": [token()] }]);
    let message = json!({ "type": "message", "content": content });
    check(Protocol::OpenAiResponses, &json!({ "status": "completed", "output": [message] }));
}

#[test]
fn ollama_log_probabilities_are_decoded() {
    let message = json!({ "content": "a" });
    check(Protocol::Ollama, &json!({ "message": message, "done": true, "logprobs": [token()] }));
}

#[test]
fn gemini_log_probabilities_are_decoded() {
    let token = |token: &str, log: f64| json!({ "token": token, "logProbability": log });
    let result = json!({
        "chosenCandidates": [token("a", -0.5)],
        "topCandidates": [{ "candidates": [token("a", -0.5), token("b", -1.5)] }],
    });
    let candidate = json!({
        "content": { "parts": [{ "text": "a" }] }, "finishReason": "STOP", "logprobsResult": result,
    });
    check(Protocol::Gemini, &json!({ "candidates": [candidate] }));
}
