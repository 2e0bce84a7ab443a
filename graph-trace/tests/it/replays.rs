//! A recorded run is replayed without a call, and one that leaves its recording says where.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use graph_core::{
    CompiledGraph, Configure, Context, Exit, NodeError, Retry, Route, RunOptions, START, State,
    StateGraph,
};
use graph_trace::{
    Detail, Outcome, Recorder, Recording, RecordingError, Shape, Trace, record, record_to,
};

use crate::graphs::World;

#[derive(State, Clone, Debug, Default)]
struct Notes {
    parts: u32,
    #[reduce(append)]
    lines: Vec<String>,
}

fn text(trace: &Trace) -> String {
    trace.text(Shape::new(Detail::Full)) + &serde_json::to_string(trace).unwrap()
}

/// Runs a graph and gives its recording, as one that went through its file.
async fn recorded<C: Send + Sync + 'static>(
    graph: &CompiledGraph<Notes, C>,
    notes: Notes,
    deps: C,
) -> (Recording, Trace) {
    let recorder = Recorder::new();
    let run = record(graph, notes, deps, RunOptions::new().effects(recorder.clone())).await;
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

async fn part(part: u32, cx: &Context<World>) -> Result<NotesUpdate, NodeError> {
    let mut lines = Vec::new();
    for nth in 0..3 {
        lines.push(cx.task("ask", (part, nth), cx.deps().call(&format!("{part}.{nth}"))).await?);
    }
    let luck = cx.random().await?;
    lines.push(format!("{luck} at {:?}", cx.now().await?));
    Ok(Notes::update().lines(lines))
}

fn parts() -> CompiledGraph<Notes, World> {
    StateGraph::new().node(part).branch(START, each).compile().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_effects_without_a_call() {
    let folder = std::env::temp_dir().join(format!("graph-trace-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("thousand.jsonl");
    // Three calls, a random number and the clock for each.
    let notes = Notes { parts: 200, ..Notes::default() };
    let world = World::new(1);
    let run = record_to(&parts(), notes, world.clone(), RunOptions::new(), &path).await.unwrap();
    assert_eq!(world.calls(), 600);
    let recording = Recording::read(&path).unwrap();
    assert_eq!(recording.calls.len(), 1000);

    let world = World::new(2);
    let replayed = recording.replay(&parts(), world.clone()).await.unwrap();
    replayed.check().unwrap();
    assert_eq!(world.calls(), 0);
    assert_eq!(text(&replayed.trace), text(&run.trace));
    assert_eq!(text(&recording.trace), text(&run.trace));
    std::fs::remove_dir_all(folder).unwrap();
}

async fn ask(notes: &Notes, cx: &Context<String>) -> Result<NotesUpdate, NodeError> {
    let prompt = cx.deps();
    cx.task("greet", "hello", async { Ok("hi".to_owned()) }).await?;
    let line: String = cx.task("ask", prompt, async { Ok(format!("{prompt}!")) }).await?;
    let last: String = cx.task("thank", notes.parts, async { Ok("bye".into()) }).await?;
    Ok(Notes::update().lines([line, last]))
}

async fn never_fails(_: &Notes) {}

#[tokio::test]
async fn a_changed_prompt_stops_at_its_call() {
    let graph = StateGraph::<Notes, String>::new().node(ask).edge(START, ask).compile().unwrap();
    let (recording, _) = recorded(&graph, Notes::default(), "old".to_owned()).await;
    let replayed = recording.replay(&graph, "new".to_owned()).await.unwrap();
    assert_eq!(
        replayed.outcome.as_ref().unwrap_err().to_string(),
        "node `ask` failed in step 1: the run has left its recording at 1:ask, call `ask:\"new\"`: \
         expected `ask:\"old\"`, got `ask:\"new\"`",
    );
    assert_eq!(replayed.strays.len(), 1);
    let stray = &replayed.strays[0];
    assert_eq!((stray.place.as_str(), stray.key.as_str()), ("1:ask", "ask:\"new\""));
    assert_eq!(stray.expected.as_deref(), Some("ask:\"old\""));
    let left: Vec<_> = replayed.left_over.iter().map(|it| it.key.as_str()).collect();
    assert_eq!(left, ["ask:\"old\"", "thank:0"]);
    let shown = replayed.check().unwrap_err().to_string();
    assert!(shown.contains("first difference: step 1, task `ask`, an outside call"), "{shown}");
    assert!(shown.contains("2 recorded calls not made:\n  at 1:ask, `ask:\"old\"`"), "{shown}");
}

/// A handler takes the failure of a call that is not in the recording; the replay tells of it all the same.
#[tokio::test]
async fn a_handler_does_not_hide_it() {
    let graph = StateGraph::<Notes, String>::new()
        .node(ask.on_error(never_fails))
        .edge(START, ask)
        .compile()
        .unwrap();
    let (recording, _) = recorded(&graph, Notes::default(), "old".to_owned()).await;
    let replayed = recording.replay(&graph, "new".to_owned()).await.unwrap();
    assert!(matches!(replayed.outcome, Ok(Exit::Done(_))));
    assert_eq!(replayed.strays.len(), 1);
    replayed.check().unwrap_err();
}

async fn silent(_: &Notes) {}

#[tokio::test]
async fn calls_that_are_left_over() {
    let graph = |silently: bool| {
        let graph = StateGraph::<Notes, String>::new().edge(START, "ask");
        let graph = if silently { graph.node_as("ask", silent) } else { graph.node(ask) };
        graph.compile().unwrap()
    };
    let (recording, _) = recorded(&graph(false), Notes::default(), "old".to_owned()).await;
    let replayed = recording.replay(&graph(true), "old".to_owned()).await.unwrap();
    assert!(replayed.strays.is_empty());
    assert_eq!(replayed.left_over.len(), 3);
    replayed.check().unwrap_err();
}

/// Fails twice, then for good or not at all.
async fn unsteady(notes: &Notes, cx: &Context<AtomicUsize>) -> Result<NotesUpdate, NodeError> {
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
async fn failures_come_back_in_order() {
    let retry = Retry::attempts(9).backoff(Duration::from_millis(1), 1.0).without_jitter();
    let graph = StateGraph::<Notes, AtomicUsize>::new()
        .node(unsteady.retry(retry))
        .edge(START, unsteady)
        .compile()
        .unwrap();
    for parts in [0, 1] {
        let notes = Notes { parts, ..Notes::default() };
        let (recording, trace) = recorded(&graph, notes, AtomicUsize::new(0)).await;
        let failed = |it: &Outcome| matches!(it, Outcome::Failed { .. });
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

async fn find(part: u32, cx: &Context<World>) -> Result<NotesUpdate, NodeError> {
    cx.deps().pause().await;
    let line = cx.task("find", "it", cx.deps().call(&format!("part {part}"))).await?;
    Ok(Notes::update().lines([line]))
}

/// Handlers of tasks of one node, whose calls have the same key.
#[tokio::test]
async fn handlers_keep_their_calls_apart() {
    let graph = StateGraph::<Notes, World>::new()
        .node(lose.on_error(find))
        .branch(START, both)
        .compile()
        .unwrap();
    for seed in 0..20 {
        let (recording, trace) = recorded(&graph, Notes::default(), World::new(seed)).await;
        let replayed = recording.replay(&graph, World::new(seed + 100)).await.unwrap();
        replayed.check().unwrap();
        assert_eq!(text(&replayed.trace), text(&trace), "seed {seed}");
    }
}

/// Which node calls what.
type Plan = Vec<(&'static str, &'static str)>;

/// Calls what is planned for its node, and takes it as it comes.
async fn planned(_: &Notes, cx: &Context<Plan>) -> Result<(), NodeError> {
    for (_, key) in cx.deps().iter().filter(|it| it.0 == cx.node()) {
        let call = async { if *key == "busy" { Err("busy".into()) } else { Ok(None) } };
        let _ = cx.task::<Option<u8>, _>("call", key, call).await;
    }
    Ok(())
}

#[tokio::test]
async fn what_is_wrong_is_said() {
    let graph = StateGraph::<Notes, Plan>::new()
        .node_as("first", planned)
        .node_as("second", planned)
        .edge(START, "first")
        .edge("first", "second")
        .compile()
        .unwrap();
    let plan = vec![("first", "a"), ("first", "busy"), ("second", "b")];
    let (recording, _) = recorded(&graph, Notes::default(), plan).await;
    // A result of nothing is a result.
    assert_eq!(recording.calls[0].outcome, Outcome::Came(serde_json::Value::Null));
    let plan = ["a", "busy", "b", "busy", "x"].map(|it| ("first", it));
    let plan = plan.into_iter().chain([("second", "c")]).collect();
    let replayed = recording.replay(&graph, plan).await.unwrap();
    let strays: Vec<_> = replayed.strays.iter().map(ToString::to_string).collect();
    assert_eq!(
        strays,
        [
            "at 1:first, call `call:\"b\"`: the recording has it at 2:second, and nothing more here",
            "at 1:first, call `call:\"busy\"`: the recording has it 1 time there and no more",
            "at 1:first, call `call:\"x\"`: the recording has nothing more here",
            "at 2:second, call `call:\"c\"`: expected `call:\"b\"`, got `call:\"c\"`",
        ],
    );
}

/// A command to a thread is no input for a graph of its own.
#[tokio::test]
async fn an_input_that_does_not_fit() {
    let graph = StateGraph::<Notes, String>::new().node(ask).edge(START, ask).compile().unwrap();
    let (mut recording, _) = recorded(&graph, Notes::default(), "old".to_owned()).await;
    recording.header.input = serde_json::json!({ "resume": true });
    recording.replay(&graph, "old".to_owned()).await.unwrap_err();
}

#[tokio::test]
async fn files_that_are_none() {
    let graph = StateGraph::<Notes, String>::new().node(ask).edge(START, ask).compile().unwrap();
    let (recording, _) = recorded(&graph, Notes::default(), "old".to_owned()).await;
    let text = recording.to_text().unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 5);
    assert_eq!(lines[2], r#"{"at":"1:ask","call":"ask:\"old\"","came":"old!"}"#);
    let cut = lines[..4].join("\n");
    assert!(matches!(Recording::parse(&cut), Err(RecordingError::Cut)));
    assert!(matches!(Recording::parse(""), Err(RecordingError::Cut)));
    let other = text.replacen("\"recording\":1", "\"recording\":2", 1);
    assert!(matches!(Recording::parse(&other), Err(RecordingError::Version(2))));
    let damaged = text.replacen("\"call\"", "\"coal\"", 1);
    assert!(matches!(Recording::parse(&damaged), Err(RecordingError::Line { line: 2, .. })));
    let missing = Recording::read("no/such/file").unwrap_err();
    assert!(matches!(missing, RecordingError::File { .. }));
}
