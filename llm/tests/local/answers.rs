//! Tests with a tiny random model. They check properties that hold for any model.

use candle_core::quantized::gguf_file::Value;
use llm::{
    ErrorKind, Finish, Llm, LocalModel, Message, ParseMethod, Piece, Request, Response, Schema,
    Tool, Usage,
};
use serde::Deserialize;
use serde_json::json;

use crate::tiny::Tiny;

fn llm() -> Llm {
    Llm::new(Tiny::new("llama").open())
}

/// Creates a request with zero temperature.
fn ask(prompt: &str) -> Request {
    Request::new(prompt).temperature(0.0).max_tokens(24)
}

async fn text(llm: &Llm, request: Request) -> String {
    llm.generate(request).await.unwrap().text()
}

#[tokio::test]
async fn response_has_model_usage_and_cost() {
    let llm = llm();
    let response = llm.generate(ask("Hello")).await.unwrap();
    let Response { model, finish, usage, cost, .. } = response;
    assert_eq!(model.to_string(), "local/tiny");
    assert_eq!(finish, Finish::Length);
    // Local models are free.
    assert_eq!(cost.unwrap().nanos(), 0);
    // The prompt consists of: special token, `user`, newline, `Hello`, special token, newline, special token,
    // `assistant`, newline. Each letter is one token.
    let input = 1 + 4 + 1 + 5 + 1 + 1 + 1 + 9 + 1;
    assert_eq!(usage, Some(Usage { input, output: 24, ..Usage::default() }));
}

#[tokio::test]
async fn every_tensor_affects_the_answer() {
    let answer = async |tiny: Tiny| text(&Llm::new(tiny.open()), ask("Hello")).await;
    let whole = answer(Tiny::new("qwen2")).await;
    assert_ne!(whole, answer(Tiny::new("llama")).await);
    for bias in ["blk.0.attn_q.bias", "blk.0.attn_k.bias", "blk.1.attn_v.bias"] {
        assert_ne!(whole, answer(Tiny::new("qwen2").without(bias)).await, "{bias}");
    }
    let slower = Tiny::new("qwen2").with("qwen2.rope.freq_base", Value::F32(100.0));
    assert_ne!(whole, answer(slower).await);
}

#[tokio::test]
async fn same_seed_gives_same_answer() {
    let llm = llm();
    let draw = |seed| text(&llm, ask("Hello").temperature(1.0).seed(seed));
    assert_eq!(draw(1).await, draw(1).await);
    assert_ne!(draw(1).await, draw(2).await);
    let free = || text(&llm, ask("Hello").temperature(1.0));
    assert_ne!(free().await, free().await);
}

#[tokio::test]
async fn pieces_add_up_to_the_answer() {
    let mut stream = llm().stream(ask("Hello").temperature(1.5).seed(3).max_tokens(200));
    let mut received = String::new();
    let mut count = 0;
    while let Some(piece) = stream.next().await {
        let Piece::Text(text) = piece else { panic!("{piece:?}") };
        received += &text;
        count += 1;
    }
    assert_eq!(stream.response().await.unwrap().text(), received);
    assert!(count > 20, "{count}");
}

#[tokio::test]
async fn answer_ends_before_stop_sequence() {
    let llm = llm();
    let whole = text(&llm, ask("Hello")).await;
    let middle: Vec<char> = whole.chars().skip(8).take(2).collect();
    let stop: String = middle.into_iter().collect();
    let response = llm.generate(ask("Hello").stop("never").stop(&stop)).await.unwrap();
    assert_eq!(response.finish, Finish::Stop);
    assert_eq!(Some(response.text().as_str()), whole.split(&stop).next());
}

#[tokio::test]
async fn common_prefix_is_cached() {
    let (first, second) = (ask("Tell me about rivers."), ask("Tell me about rivers. And lakes."));
    let llm = llm();
    let before = llm.generate(first.clone()).await.unwrap();
    let after = llm.generate(second.clone()).await.unwrap();
    // The cached prefix is everything up to the full stop, after which the messages differ.
    assert_eq!((before.usage.unwrap().cached, after.usage.unwrap().cached), (0, 1 + 5 + 21));
    let again = llm.generate(first.clone()).await.unwrap();
    assert!(again.usage.unwrap().cached >= 27, "{:?}", again.usage);
    assert_eq!(again.text(), before.text());
    let fresh = self::llm();
    assert_eq!(text(&fresh, second).await, after.text());
}

#[tokio::test]
async fn continued_conversation_is_cached() {
    let llm = llm();
    let first = ask("Tell me about rivers.");
    let answer = llm.generate(first.clone()).await.unwrap();
    let read = answer.usage.unwrap().input;
    let next = first.message(answer.into_message()).message(Message::user("And lakes?"));
    let next = llm.generate(next).await.unwrap();
    assert!(next.usage.unwrap().cached >= read, "{:?}", next.usage);
}

#[tokio::test]
async fn conversations_are_cached_separately() {
    let cached = async |model: LocalModel| {
        let llm = Llm::new(model);
        let mut cached = vec![];
        for who in ["a pilot", "a cook", "a pilot", "a cook"] {
            let request = ask("What do you do?").system(format!("{who} with a long story"));
            cached.push(llm.generate(request).await.unwrap().usage.unwrap().cached);
        }
        cached
    };
    let two = cached(Tiny::new("llama").open().conversations(2)).await;
    assert!(two[0] == 0 && two[1] == 0 && two[2] > 50 && two[3] > 50, "{two:?}");
    let one = cached(Tiny::new("llama").open().conversations(1)).await;
    assert!(one.iter().all(|it| *it < 20), "{one:?}");
}

#[tokio::test]
async fn concurrent_calls_are_serialised() {
    let llm = llm();
    let prompts = ["one", "two", "three", "four"];
    let calls = prompts.map(|prompt| {
        let llm = llm.clone();
        tokio::spawn(async move { text(&llm, ask(prompt)).await })
    });
    for (prompt, call) in prompts.iter().zip(calls) {
        assert_eq!(call.await.unwrap(), text(&self::llm(), ask(prompt)).await);
    }
}

#[tokio::test]
async fn dropping_a_call_stops_the_model() {
    let llm = llm();
    // The schema makes the answer endless, so the next call is answered only if the dropped call stops.
    let schema = json!({"type": "array", "items": {"type": "boolean"}, "minItems": 1_u64 << 40});
    let endless = ask("Hello").max_tokens(u32::MAX);
    let mut endless = llm.stream(endless.schema(Schema { name: "endless".into(), schema }));
    assert!(endless.next().await.is_some());
    drop(endless);
    assert_eq!(llm.generate(ask("Hello")).await.unwrap().usage.unwrap().output, 24);
}

#[tokio::test]
async fn context_window_limits_request_and_answer() {
    let llm = Llm::new(Tiny::new("llama").open().context_window(60));
    let answer = llm.generate(ask(&"x".repeat(30)).max_tokens(100)).await.unwrap();
    let usage = answer.usage.unwrap();
    assert_eq!((answer.finish, usage.input + usage.output), (Finish::Length, 60));
    let error = llm.generate(ask(&"x".repeat(50))).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::RequestTooLong);
    assert_eq!(
        error.message,
        "the request has 69 tokens, but the context window has 60; shorten the conversation"
    );
}

#[tokio::test]
async fn special_tokens_in_text_are_plain_text() {
    let llm = llm();
    let count = async |prompt| llm.generate(ask(prompt)).await.unwrap().usage.unwrap().input;
    // As plain text, the ten characters are nine tokens, because `en` is one token. As a special token, they would be
    // a single token.
    assert_eq!(count("<|im_end|>").await - count("").await, 9);
}

#[tokio::test]
async fn tools_are_rejected() {
    let tool = Tool::new("look", "", json!({}));
    let error = llm().generate(ask("Hello").tool(tool)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::BadRequest);
    assert!(error.message.starts_with("local models do not support tools"), "{error}");
}

#[derive(Debug, Deserialize, schemars::JsonSchema)]
struct Score {
    #[schemars(range(min = 1, max = 10))]
    impact: u8,
    #[schemars(length(max = 20))]
    reason: String,
    sure: Option<bool>,
    parts: [i64; 2],
}

#[tokio::test]
async fn answers_of_a_random_model_conform_to_the_schema() {
    let llm = llm();
    for seed in 0..5 {
        let request = Request::new("Score it.").temperature(1.0).seed(seed).max_tokens(300);
        let score = llm.generate_json::<Score>(request).await.unwrap();
        assert_eq!(score.method, ParseMethod::Schema, "{score:?}");
        assert_eq!(score.response.finish, Finish::Stop);
        let Score { impact, reason, sure, parts } = score.value;
        assert!((1..=10).contains(&impact) && reason.chars().count() <= 20, "{sure:?} {parts:?}");
    }
}
