//! Tests that recorded runs are replayed without making calls, and that differences from the recording are
//! reported.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use graph_core::{
    CompiledGraph, Context, NodeError, NodeExt, RetryPolicy, Route, RunOptions, RunOutcome, START,
    State, StateGraph,
};
use graph_trace::{
    CallOutcome, Detail, Recorder, Recording, RecordingError, TextOptions, Trace, record, record_to,
};

use crate::graphs::TestEnv;

#[derive(State, Clone, Debug, Default)]
struct Notes {
    parts: u32,
    #[reduce(append)]
    lines: Vec<String>,
}

fn text(trace: &Trace) -> String {
    trace.text(TextOptions::new(Detail::Full)) + &serde_json::to_string(trace).unwrap()
}

/// Runs a graph and returns its recording after a round trip through the file format.
async fn recorded<C: Send + Sync + 'static>(
    graph: &CompiledGraph<Notes, C>,
    notes: Notes,
    deps: C,
) -> (Recording, Trace) {
    let recorder = Recorder::new();
    let run =
        record(graph, notes, deps, RunOptions::new().effect_interceptor(recorder.clone())).await;
    let recording = recorder.recording(&run.trace);
    let read = Recording::parse(&recording.to_text().unwrap()).unwrap();
    assert_eq!(read, recording);
    (read, run.trace)
}

#[derive(Route)]
enum Parts {
    #[to(part)]
    Each(Vec<u32>),
}

fn each(notes: &Notes) -> Parts {
    Parts::Each((0..notes.parts).collect())
}

async fn part(part: u32, cx: &Context<TestEnv>) -> Result<NotesUpdate, NodeError> {
    let mut lines = Vec::new();
    for nth in 0..3 {
        lines.push(cx.task("ask", (part, nth), cx.deps().call(&format!("{part}.{nth}"))).await?);
    }
    let number = cx.random().await?;
    lines.push(format!("{number} at {:?}", cx.now().await?));
    Ok(Notes::update().lines(lines))
}

fn parts() -> CompiledGraph<Notes, TestEnv> {
    StateGraph::new().node(part).branch(START, each).compile().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_effects_are_replayed_without_a_call() {
    let dir = std::env::temp_dir().join(format!("graph-trace-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("thousand.jsonl");
    // Each part makes three calls and reads a random number and the clock.
    let notes = Notes { parts: 200, ..Notes::default() };
    let env = TestEnv::new(1);
    let run = record_to(&parts(), notes, env.clone(), RunOptions::new(), &path).await.unwrap();
    assert_eq!(env.calls(), 600);
    let recording = Recording::read(&path).unwrap();
    assert_eq!(recording.calls.len(), 1000);

    let env = TestEnv::new(2);
    let replayed = recording.replay(&parts(), env.clone()).await.unwrap();
    replayed.check().unwrap();
    assert_eq!(env.calls(), 0);
    assert_eq!(text(&replayed.trace), text(&run.trace));
    assert_eq!(text(&recording.trace), text(&run.trace));
    std::fs::remove_dir_all(dir).unwrap();
}

async fn ask(notes: &Notes, cx: &Context<String>) -> Result<NotesUpdate, NodeError> {
    let prompt = cx.deps();
    cx.task("greet", "hello", async { Ok("hi".to_owned()) }).await?;
    let line: String = cx.task("ask", prompt, async { Ok(format!("{prompt}!")) }).await?;
    let last: String = cx.task("thank", notes.parts, async { Ok("bye".into()) }).await?;
    Ok(Notes::update().lines([line, last]))
}

async fn silent(_: &Notes) {}

#[tokio::test]
async fn a_changed_prompt_fails_at_its_call() {
    let graph = StateGraph::<Notes, String>::new().node(ask).edge(START, ask).compile().unwrap();
    let (recording, _) = recorded(&graph, Notes::default(), "old".to_owned()).await;
    let replayed = recording.replay(&graph, "new".to_owned()).await.unwrap();
    assert_eq!(
        replayed.outcome.as_ref().unwrap_err().to_string(),
        "node `ask` failed in step 1: the run diverged from its recording at 1:ask, call `ask:\"new\"`: \
         expected `ask:\"old\"`, got `ask:\"new\"`",
    );
    assert_eq!(replayed.unrecorded_calls.len(), 1);
    let call = &replayed.unrecorded_calls[0];
    assert_eq!((call.call_site.as_str(), call.key.as_str()), ("1:ask", "ask:\"new\""));
    assert_eq!(call.expected.as_deref(), Some("ask:\"old\""));
    let left: Vec<_> = replayed.unused_calls.iter().map(|it| it.key.as_str()).collect();
    assert_eq!(left, ["ask:\"old\"", "thank:0"]);
    let shown = replayed.check().unwrap_err().to_string();
    assert!(shown.contains("first difference: step 1, task `ask`, external call"), "{shown}");
    assert!(shown.contains("2 recorded calls not made:\n  at 1:ask, `ask:\"old\"`"), "{shown}");
}

/// If a handler catches the failure of an unrecorded call, the replay still reports the call.
#[tokio::test]
async fn a_handler_does_not_hide_an_unrecorded_call() {
    let graph = StateGraph::<Notes, String>::new()
        .node(ask.on_error(silent))
        .edge(START, ask)
        .compile()
        .unwrap();
    let (recording, _) = recorded(&graph, Notes::default(), "old".to_owned()).await;
    let replayed = recording.replay(&graph, "new".to_owned()).await.unwrap();
    assert!(matches!(replayed.outcome, Ok(RunOutcome::Done(_))));
    assert_eq!(replayed.unrecorded_calls.len(), 1);
    replayed.check().unwrap_err();
}

#[tokio::test]
async fn recorded_calls_that_are_not_made_are_reported() {
    let graph = |silently: bool| {
        let graph = StateGraph::<Notes, String>::new().edge(START, "ask");
        let graph = if silently { graph.node_as("ask", silent) } else { graph.node(ask) };
        graph.compile().unwrap()
    };
    let (recording, _) = recorded(&graph(false), Notes::default(), "old".to_owned()).await;
    let replayed = recording.replay(&graph(true), "old".to_owned()).await.unwrap();
    assert!(replayed.unrecorded_calls.is_empty());
    assert_eq!(replayed.unused_calls.len(), 3);
    replayed.check().unwrap_err();
}

/// Fails twice and then either succeeds or fails terminally.
async fn unreliable(notes: &Notes, cx: &Context<AtomicUsize>) -> Result<NotesUpdate, NodeError> {
    let call = async {
        match (cx.deps().fetch_add(1, Ordering::Relaxed), notes.parts) {
            (nth @ 0..2, _) => Err(NodeError::from(format!("busy {nth}"))),
            (_, 0) => Ok("at last".to_owned()),
            _ => Err(NodeError::terminal("never")),
        }
    };
    let line = cx.task("call", (), call).await?;
    Ok(Notes::update().lines([line]))
}

#[tokio::test]
async fn failures_are_replayed_in_order() {
    let retry =
        RetryPolicy::max_attempts(9).backoff(Duration::from_millis(1), 1.0).without_jitter();
    let graph = StateGraph::<Notes, AtomicUsize>::new()
        .node(unreliable.retry(retry))
        .edge(START, unreliable)
        .compile()
        .unwrap();
    for parts in [0, 1] {
        let notes = Notes { parts, ..Notes::default() };
        let (recording, trace) = recorded(&graph, notes, AtomicUsize::new(0)).await;
        let failed = |it: &CallOutcome| matches!(it, CallOutcome::Failed { .. });
        let outcomes: Vec<_> = recording.calls.iter().map(|it| failed(&it.outcome)).collect();
        assert_eq!(outcomes, [true, true, parts == 1]);
        let calls = AtomicUsize::new(7);
        let replayed = recording.replay(&graph, calls).await.unwrap();
        replayed.check().unwrap();
        assert_eq!(text(&replayed.trace), text(&trace));
    }
}

#[derive(Route)]
enum Both {
    #[to(lose)]
    Parts(Vec<u32>),
}

fn both(_: &Notes) -> Both {
    Both::Parts((0..8).collect())
}

async fn lose(part: u32) -> Result<(), NodeError> {
    Err(format!("lost {part}").into())
}

async fn find(part: u32, cx: &Context<TestEnv>) -> Result<NotesUpdate, NodeError> {
    cx.deps().pause().await;
    let line = cx.task("find", "it", cx.deps().call(&format!("part {part}"))).await?;
    Ok(Notes::update().lines([line]))
}

/// If several tasks of one node have handlers whose calls have the same key, each handler gets its own result.
#[tokio::test]
async fn calls_of_concurrent_handlers_are_kept_apart() {
    let graph = StateGraph::<Notes, TestEnv>::new()
        .node(lose.on_error(find))
        .branch(START, both)
        .compile()
        .unwrap();
    for seed in 0..20 {
        let (recording, trace) = recorded(&graph, Notes::default(), TestEnv::new(seed)).await;
        let replayed = recording.replay(&graph, TestEnv::new(seed + 100)).await.unwrap();
        replayed.check().unwrap();
        assert_eq!(text(&replayed.trace), text(&trace), "seed {seed}");
    }
}

/// Pairs of a node and the key of a call it makes.
type Plan = Vec<(&'static str, &'static str)>;

/// Makes the calls that are planned for its node and ignores failures.
async fn planned(_: &Notes, cx: &Context<Plan>) -> Result<(), NodeError> {
    for (_, key) in cx.deps().iter().filter(|it| it.0 == cx.node()) {
        let call = async { if *key == "busy" { Err("busy".into()) } else { Ok(None) } };
        let _ = cx.task::<Option<u8>, _>("call", key, call).await;
    }
    Ok(())
}

#[tokio::test]
async fn unrecorded_calls_are_explained() {
    let graph = StateGraph::<Notes, Plan>::new()
        .node_as("first", planned)
        .node_as("second", planned)
        .edge(START, "first")
        .edge("first", "second")
        .compile()
        .unwrap();
    let plan = vec![("first", "a"), ("first", "busy"), ("second", "b")];
    let (recording, _) = recorded(&graph, Notes::default(), plan).await;
    // `null` is a valid result.
    assert_eq!(recording.calls[0].outcome, CallOutcome::Returned(serde_json::Value::Null));
    let plan = ["a", "busy", "b", "busy", "x"].map(|it| ("first", it));
    let plan = plan.into_iter().chain([("second", "c")]).collect();
    let replayed = recording.replay(&graph, plan).await.unwrap();
    let calls: Vec<_> = replayed.unrecorded_calls.iter().map(ToString::to_string).collect();
    assert_eq!(
        calls,
        [
            "at 1:first, call `call:\"b\"`: the recording contains no further call at this call site; it contains this call at 2:second",
            "at 1:first, call `call:\"busy\"`: the recording contains it only 1 time at this call site",
            "at 1:first, call `call:\"x\"`: the recording contains no further call at this call site",
            "at 2:second, call `call:\"c\"`: expected `call:\"b\"`, got `call:\"c\"`",
        ],
    );
}

/// A command to a thread is not a valid input for a new run.
#[tokio::test]
async fn replay_rejects_an_input_that_does_not_match_the_state() {
    let graph = StateGraph::<Notes, String>::new().node(ask).edge(START, ask).compile().unwrap();
    let (mut recording, _) = recorded(&graph, Notes::default(), "old".to_owned()).await;
    recording.header.input = serde_json::json!({ "resume": true });
    recording.replay(&graph, "old".to_owned()).await.unwrap_err();
}

#[tokio::test]
async fn invalid_files_are_rejected() {
    let graph = StateGraph::<Notes, String>::new().node(ask).edge(START, ask).compile().unwrap();
    let (recording, _) = recorded(&graph, Notes::default(), "old".to_owned()).await;
    let text = recording.to_text().unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 5);
    assert_eq!(lines[2], r#"{"at":"1:ask","call":"ask:\"old\"","came":"old!"}"#);
    let cut = lines[..4].join("\n");
    assert!(matches!(Recording::parse(&cut), Err(RecordingError::Incomplete)));
    assert!(matches!(Recording::parse(""), Err(RecordingError::Incomplete)));
    let other = text.replacen("\"recording\":2", "\"recording\":1", 1);
    assert!(matches!(Recording::parse(&other), Err(RecordingError::Version(1))));
    let damaged = text.replacen("\"call\"", "\"coal\"", 1);
    assert!(matches!(Recording::parse(&damaged), Err(RecordingError::Line { line: 2, .. })));
    let missing = Recording::read("no/such/file").unwrap_err();
    assert!(matches!(missing, RecordingError::File { .. }));
}
