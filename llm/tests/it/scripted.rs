//! Tests of the scripted model.

use std::time::Duration;

use llm::{
    ErrorKind, Finish, Llm, Model, ModelId, Money, Piece, RecordMode, Recording, Reply, Request,
    Scripted,
};
use serde_json::json;
use tokio::time::Instant;

#[tokio::test]
async fn replies_are_given_in_order_and_then_calls_fail() {
    let replies = [Reply::from(ErrorKind::RateLimited), Reply::from("Fair enough.")];
    let llm = Llm::new(Scripted::replies("judge", replies));
    let error = llm.generate("Judge.").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::RateLimited);
    assert_eq!(error.model, ModelId::new("scripted", "judge"));
    assert_eq!(llm.generate("Judge.").await.unwrap().text(), "Fair enough.");
    let error = llm.generate("Judge.").await.unwrap_err();
    assert_eq!(
        (error.kind, &*error.message),
        (ErrorKind::BadRequest, "the script has no replies left; add a reply for this call")
    );
}

#[tokio::test(start_paused = true)]
async fn replies_are_delayed_and_sent_word_by_word() {
    let model = Scripted::new("slow", |_| "one two three").delay(Duration::from_millis(500));
    let llm = Llm::new(model);
    let start = Instant::now();
    let mut stream = llm.stream("go");
    let mut received = Vec::new();
    while let Some(piece) = stream.next().await {
        let Piece::Text(word) = piece else { panic!("{piece:?}") };
        received.push(word);
    }
    assert_eq!(received, ["one ", "two ", "three"]);
    let response = stream.response().await.unwrap();
    assert_eq!(start.elapsed().as_millis(), 500);
    assert_eq!((response.latency.as_millis(), response.cost), (500, Some(Money::ZERO)));
}

#[tokio::test]
async fn stop_sequences_and_token_limits_apply() {
    let text = "one two three END four".to_owned() + &" word".repeat(99);
    let llm = Llm::new(Scripted::new("long", move |_| text.clone()));
    let stopped = llm.generate(Request::new("go").stop("END")).await.unwrap();
    assert_eq!((stopped.text().as_str(), stopped.finish), ("one two three ", Finish::Stop));
    let cut = llm.generate(Request::new("go").max_tokens(7)).await.unwrap();
    assert_eq!((cut.text().as_str(), cut.finish), ("one two three ", Finish::Length));
    let usage = cut.usage.unwrap();
    assert!(usage.output <= 7 && usage.input > 0);
}

#[tokio::test]
async fn tools_can_be_called() {
    let llm = Llm::new(Scripted::new("caller", |request| {
        let arguments = json!({ "query": request.prompt() });
        Reply::ToolCall { name: "search".to_owned(), arguments }
    }));
    let response = llm.generate("ACME filings").await.unwrap();
    let call = response.tool_calls().next().unwrap();
    assert_eq!((&*call.name, &call.arguments), ("search", &json!({ "query": "ACME filings" })));
    assert_eq!(response.finish, Finish::ToolCalls);
}

#[tokio::test]
async fn recordings_ignore_attachments() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.jsonl");
    for attached in [7_u32, 8] {
        let recording = Recording::open(&path, RecordMode::ReplayOrRecord).unwrap();
        let answer = |request: &Request| format!("{:?}", request.attached::<u32>());
        let llm = Llm::new(Scripted::new("reader", answer)).record(&recording);
        let response = llm.generate(Request::new("?").attach(attached)).await.unwrap();
        assert_eq!(response.text(), "Some(7)", "the second call is answered from the recording");
    }
}

#[test]
fn id_names_the_scripted_provider() {
    let llm = Llm::new(Scripted::new("debate", |_| ""));
    assert_eq!(llm.id().to_string(), "scripted/debate");
    assert!(format!("{llm:?}").contains("Scripted"));
}
