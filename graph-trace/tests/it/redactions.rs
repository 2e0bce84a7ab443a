//! Tests that redactions apply to every part of a trace.

use graph_core::{Context, Input, MemorySaver, NodeError, Route, START, State, StateGraph};
use graph_trace::{Detail, Redactions, TextOptions, record_thread};
use serde_json::{Value, json};

#[track_caller]
fn check(path: &str, expect: impl Into<Value>) {
    let mut value = json!({
        "messages": [{ "id": 1, "text": "a" }, { "id": 2, "text": "b" }],
        "auth": { "token": "t", "deep": [{ "token": "u" }] },
        "grid": [[1, 2], [3, 4]],
    });
    let before = value.clone();
    Redactions::new().path(path, "-").apply(&mut value);
    let mut expected = before;
    for (key, new) in expect.into().as_object().unwrap() {
        expected[key] = new.clone();
    }
    assert_eq!(value, expected, "{path}");
}

#[test]
fn paths_select_fields() {
    check("messages", json!({ "messages": "-" }));
    check(
        "messages[*].id",
        json!({ "messages": [{ "id": "-", "text": "a" }, { "id": "-", "text": "b" }] }),
    );
    check(
        "messages[1].text",
        json!({ "messages": [{ "id": 1, "text": "a" }, { "id": 2, "text": "-" }] }),
    );
    check("messages[7].text", json!({}));
    check("grid[*][0]", json!({ "grid": [["-", 2], ["-", 4]] }));
    check("auth.*", json!({ "auth": { "token": "-", "deep": "-" } }));
    check("**.token", json!({ "auth": { "token": "-", "deep": [{ "token": "-" }] } }));
    check("auth.**.token", json!({ "auth": { "token": "-", "deep": [{ "token": "-" }] } }));
    check("nothing.here", json!({}));
}

#[test]
fn invalid_paths_are_rejected() {
    for path in ["", "a..b", "a[", "a[x]", "a[1", "a.[*]"] {
        let parsed = std::panic::catch_unwind(|| Redactions::new().path(path, "-"));
        assert!(parsed.is_err(), "{path}");
    }
}

#[test]
fn patterns_match_parts_of_texts() {
    let check = |pattern: &str, text: &str, expect: &str| {
        let mut value = json!([text]);
        Redactions::new().text(pattern, "-").apply(&mut value);
        assert_eq!(value, json!([expect]), "{pattern}");
    };
    check("req-*", "see req-8f31 and req-1", "see - and -");
    check("req-*", "req- alone", "req- alone");
    check("<*@*>", "from <a@b.c> to <d@e>", "from - to -");
    check("took * ms", "took 12 ms, took 7 ms", "-, -");
    check("ü", "grün", "gr-n");
    check("\"sk-*\"", "{\"key\":\"sk-1\",\"b\":2}", "{\"key\":-,\"b\":2}");
}

#[derive(State, Clone, Debug, Default)]
struct Talk {
    secret: String,
}

#[derive(Route)]
enum Next {
    #[to(end)]
    End(String),
}

fn next(_: &Talk) -> Next {
    Next::End("sk-sent".into())
}

async fn talk(talk: &Talk, cx: &Context) -> Result<TalkUpdate, NodeError> {
    cx.emit(&talk.secret).await;
    cx.message(json!({ "secret": "sk-message" })).await;
    cx.task("call", "sk-key", async { Ok("sk-result".to_owned()) }).await?;
    let answer: String = cx.interrupt("sk-question")?;
    Ok(Talk::update().secret(answer))
}

async fn end(payload: String) -> Result<(), NodeError> {
    Err(payload.into())
}

#[tokio::test]
async fn every_part_of_a_trace_is_redacted() {
    let graph = StateGraph::<Talk>::new()
        .node(talk)
        .node(end)
        .edge(START, talk)
        .branch(talk, next)
        .checkpointer(MemorySaver::new())
        .compile()
        .unwrap();
    let thread = graph.thread("t", ());
    let interrupted = record_thread(&thread, Talk { secret: "sk-input".into() }).await;
    let recorded = interrupted.then(&thread, Input::resume("sk-answer").unwrap()).await;
    let text = |it: Redactions| recorded.trace.redacted(&it).text(TextOptions::new(Detail::Full));
    let whole = text(Redactions::new());
    assert_eq!(whole.matches("sk-").count(), 15, "{whole}");
    let shown = text(Redactions::new().text("sk-*", "[secret]"));
    assert!(!shown.contains("sk-") && shown.contains("[secret]"), "{shown}");
    // A path redacts the input, the states, the inputs of tasks, the message and the write.
    let shown = text(Redactions::new().path("secret", "[secret]"));
    assert_eq!(shown.matches("[secret]").count(), 6, "{shown}");
}
