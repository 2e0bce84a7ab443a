//! Streams: modes, order of events, subgraphs and back-pressure.

use graph_core::{
    CachePolicy, Context, Event, EventKind, MemoryCache, NodeError, NodeExt, RunError, RunOptions,
    RunStream, START, State, StateGraph, Stops, StreamMode, checkpoint::Source, subgraph,
};
use serde_json::json;

use crate::support::{
    Probe, Trail, TrailUpdate, ask, chain, diamond, graph, pass, path_of, thread_of, trail,
    visited, yield_to_tasks,
};

async fn all<S: State>(stream: &mut RunStream<S>) -> Vec<Event> {
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        events.push(event);
    }
    events
}

/// Formats an event as a short text.
fn summary(event: &Event) -> String {
    let node = event.node.as_deref().unwrap_or("-");
    match &event.kind {
        EventKind::Values(values) => format!("values {}", values.to_json()["path"]),
        EventKind::Update { cached, .. } => {
            format!("update {node}{}", if *cached { " cached" } else { "" })
        }
        EventKind::Interrupted(interrupts) => format!("interrupted {}", interrupts.len()),
        EventKind::Custom(value) => format!("custom {node} {value}"),
        EventKind::Message(value) => format!("message {node} {value}"),
        EventKind::TaskStarted { .. } => format!("start {node}"),
        EventKind::TaskFinished { error, .. } => {
            format!("end {node}{}", if error.is_some() { " failed" } else { "" })
        }
        EventKind::Checkpoint { source, next, .. } => {
            format!("checkpoint {} [{}]", source.as_str(), next.join(" "))
        }
        other => format!("{other:?}"),
    }
}

async fn events_of(graph: StateGraph<Trail, Probe>, modes: &[StreamMode]) -> Vec<String> {
    let graph = graph.compile().expect("the graph is valid");
    let options = RunOptions::new().stream_modes(modes.iter().copied());
    let mut stream = graph.with(options).stream(Trail::default(), Probe::default());
    all(&mut stream).await.iter().map(summary).collect()
}

async fn emit_both(_: &Trail, cx: &Context<Probe>) -> TrailUpdate {
    cx.emit(json!({"at": 1})).await;
    cx.message("word").await;
    visited("emit_both")
}

#[tokio::test]
async fn values_are_streamed_after_each_step_that_writes() {
    let events = events_of(chain(["a", "b"]), &[StreamMode::Values]).await;
    assert_eq!(events, ["values []", r#"values ["a"]"#, r#"values ["a","b"]"#]);
}

#[tokio::test]
async fn updates_are_streamed_as_tasks_finish() {
    let graph = chain(["a", "b"]).compile().unwrap();
    let mut stream = graph.stream(Trail::default(), Probe::default());
    let events = all(&mut stream).await;
    assert_eq!(events.iter().map(summary).collect::<Vec<_>>(), ["update a", "update b"]);
    let EventKind::Update { writes, .. } = &events[0].kind else { panic!("an update") };
    assert_eq!((writes[0].field.as_str(), &writes[0].value), ("path", &json!(["a"])));
    assert_eq!(events.iter().map(|it| it.step).collect::<Vec<_>>(), [1, 2]);
}

#[tokio::test]
async fn nodes_send_custom_events_and_messages() {
    let built = || graph().node(emit_both).edge(START, emit_both);
    assert_eq!(events_of(built(), &[StreamMode::Custom]).await, [r#"custom emit_both {"at":1}"#]);
    assert_eq!(events_of(built(), &[StreamMode::Messages]).await, [r#"message emit_both "word""#]);
    let both =
        events_of(built(), &[StreamMode::Custom, StreamMode::Messages, StreamMode::Updates]).await;
    assert_eq!(
        both,
        [r#"custom emit_both {"at":1}"#, r#"message emit_both "word""#, "update emit_both"]
    );
}

#[tokio::test]
async fn task_events_include_input_and_result() {
    let probe = Probe::default();
    probe.fail_next("c", 1);
    let options = RunOptions::new().stream_modes([StreamMode::Tasks]);
    let mut stream = thread_of(diamond(), &probe).with_options(options).stream(Trail::default());
    let events = all(&mut stream).await;
    let summary: Vec<_> = events.iter().map(summary).collect();
    assert_eq!(summary[..2], ["start a", "end a"]);
    assert_eq!(summary[2..4], ["start b", "start c"]);
    assert!(
        summary[4..].contains(&"end b".to_owned())
            && summary[4..].contains(&"end c failed".to_owned())
    );
    let EventKind::TaskStarted { input, .. } = &events[2].kind else { panic!("a start") };
    assert_eq!(input["path"], json!(["a"]));
    assert_eq!(
        events[2].task,
        events.iter().rfind(|it| it.node.as_deref() == Some("b")).unwrap().task
    );
    let error = stream.finish().await.unwrap_err();
    assert!(matches!(error, RunError::Node { .. }));
}

#[tokio::test]
async fn checkpoints_are_streamed_as_they_are_created() {
    let thread = thread_of(chain(["a"]), &Probe::default());
    let options = RunOptions::new().stream_modes([StreamMode::Checkpoints]);
    let mut stream = thread.clone().with_options(options).stream(Trail::default());
    let events = all(&mut stream).await;
    let summary: Vec<_> = events.iter().map(summary).collect();
    assert_eq!(
        summary,
        ["checkpoint input [__start__]", "checkpoint loop [a]", "checkpoint loop []"]
    );
    let history = thread.history(None).await.unwrap();
    let mut ids: Vec<_> = events
        .iter()
        .map(|it| match &it.kind {
            EventKind::Checkpoint { id, .. } => *id,
            other => panic!("{other:?}"),
        })
        .collect();
    ids.reverse();
    assert_eq!(ids, history.iter().map(|it| it.id).collect::<Vec<_>>());
    assert_eq!(history[0].source, Source::Loop);
}

#[tokio::test]
async fn a_run_that_stops_after_a_node_streams_the_checkpoint_of_the_step() {
    let options =
        RunOptions::new().stream_modes([StreamMode::Checkpoints]).stop_after(Stops::at(["a"]));
    let thread = thread_of(chain(["a", "b"]), &Probe::default()).with_options(options);
    let mut stream = thread.stream(Trail::default());
    let events: Vec<_> = all(&mut stream).await.iter().map(summary).collect();
    assert_eq!(
        events,
        ["checkpoint input [__start__]", "checkpoint loop [a]", "checkpoint loop [b]"]
    );
}

#[tokio::test]
async fn events_are_numbered_consecutively() {
    let graph = diamond().compile().unwrap();
    let options = RunOptions::new().stream_modes(StreamMode::DEBUG).run_id("r");
    let mut stream = graph.with(options).stream(Trail::default(), Probe::default());
    let events = all(&mut stream).await;
    assert!(events.len() > 10);
    for (number, event) in (0..).zip(&events) {
        assert_eq!((event.seq, &*event.run), (number, "r"));
    }
    assert_eq!(stream.finish().await.unwrap().state(), &trail(["a", "b", "c", "d"]));
}

#[tokio::test]
async fn a_state_in_an_event_can_be_downcast() {
    let graph = chain(["a"]).compile().unwrap();
    let options = RunOptions::new().stream_modes([StreamMode::Values]);
    let mut stream = graph.with(options).stream(Trail::default(), Probe::default());
    let events = all(&mut stream).await;
    let EventKind::Values(values) = &events[1].kind else { panic!("values") };
    assert_eq!(values.get::<Trail>(), Some(&trail(["a"])));
    assert!(values.get::<Inner>().is_none());
}

#[tokio::test]
async fn an_interrupt_is_an_event() {
    let thread = thread_of(graph().node(ask).edge(START, ask), &Probe::default());
    let mut stream = thread.stream(Trail::default());
    let events = all(&mut stream).await;
    assert_eq!(events.iter().map(summary).collect::<Vec<_>>(), ["interrupted 1"]);
    let outcome = stream.finish().await.unwrap();
    assert_eq!(outcome.interrupts().len(), 1);
    let mut stream = thread.stream(graph_core::Input::resume("yes").unwrap());
    assert_eq!(all(&mut stream).await.iter().map(summary).collect::<Vec<_>>(), ["update ask"]);
}

#[tokio::test]
async fn a_cached_result_is_marked() {
    let cache = MemoryCache::new();
    let graph = graph()
        .node(pass.cache(CachePolicy::new()))
        .edge(START, pass)
        .cache(cache)
        .compile()
        .unwrap();
    for expect in ["update pass", "update pass cached"] {
        let mut stream = graph.stream(Trail::default(), Probe::default());
        assert_eq!(all(&mut stream).await.iter().map(summary).collect::<Vec<_>>(), [expect]);
    }
}

#[derive(State, Clone, Debug, Default)]
struct Inner {
    #[reduce(append)]
    path: Vec<String>,
}

async fn deep(_: &Inner, cx: &Context<Probe>) -> InnerUpdate {
    cx.emit("deep").await;
    Inner::update().path(["deep".to_owned()])
}

/// Returns a graph whose subgraph `high` contains the subgraph `low`, which contains the node `deep`.
fn nested() -> StateGraph<Trail, Probe> {
    let low = StateGraph::<Inner, Probe>::new().node(deep).edge(START, deep).compile();
    let low = low.expect("the graph is valid");
    let same = |it: Inner| Inner::update().path(it.path);
    let high = StateGraph::<Inner, Probe>::new()
        .node(subgraph("low", &low, |_: &Inner| Inner::default(), same))
        .edge(START, "low")
        .compile()
        .expect("the graph is valid");
    let out = |it: Inner| Trail::update().path(it.path);
    graph().node(subgraph("high", &high, |_: &Trail| Inner::default(), out)).edge(START, "high")
}

#[tokio::test]
async fn events_of_subgraphs_carry_their_namespace() {
    let graph = nested().compile().unwrap();
    let options =
        RunOptions::new().stream_modes([StreamMode::Updates, StreamMode::Custom]).subgraphs();
    let mut stream = graph.with(options).stream(Trail::default(), Probe::default());
    let events = all(&mut stream).await;
    let path = |event: &Event| {
        let parts = event.namespace.split('|').map(|it| it.split(':').next().unwrap_or(it));
        format!("{}/{}", parts.collect::<Vec<_>>().join("|"), summary(event))
    };
    let summary: Vec<_> = events.iter().map(path).collect();
    let expect = [
        r#"high|low/custom deep "deep""#, "high|low/update deep", "high/update low", "/update high",
    ];
    assert_eq!(summary, expect);
    assert_eq!(events.iter().map(|it| it.seq).collect::<Vec<_>>(), [0, 1, 2, 3]);
}

#[tokio::test]
async fn events_of_subgraphs_are_excluded_by_default() {
    assert_eq!(
        events_of(nested(), &[StreamMode::Updates, StreamMode::Custom]).await,
        ["update high"]
    );
}

/// Emits ten events and traces each one after it was sent.
async fn emit_ten(_: &Trail, cx: &Context<Probe>) -> Result<(), NodeError> {
    for number in 0..10 {
        cx.emit(number).await;
        cx.deps().enter(cx.step(), "emitted").await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_slow_reader_slows_the_run_down() {
    let probe = Probe::default();
    let graph = graph()
        .node(emit_ten)
        .node(pass)
        .edge(START, emit_ten)
        .edge(emit_ten, pass)
        .compile()
        .unwrap();
    let options = RunOptions::new().stream_modes([StreamMode::Custom]).event_buffer(1);
    let mut stream = graph.with(options).stream(Trail::default(), probe.clone());
    for read in 1..=3 {
        assert!(stream.next().await.is_some());
        yield_to_tasks().await;
        let ahead = probe.count("emitted");
        assert!(ahead <= read + 1, "{ahead} events emitted, {read} read");
    }
    assert_eq!(probe.count("pass"), 0);
    assert!(stream.finish().await.unwrap().is_done());
    assert_eq!((probe.count("emitted"), probe.count("pass")), (10, 1));
}

#[tokio::test]
async fn dropping_the_stream_cancels_the_run() {
    let probe = Probe::default();
    let thread = thread_of(chain(["a", "b", "c"]), &probe);
    let mut stream =
        thread.clone().with_options(RunOptions::new().event_buffer(1)).stream(Trail::default());
    assert_eq!(summary(&stream.next().await.unwrap()), "update a");
    drop(stream);
    yield_to_tasks().await;
    assert_eq!(probe.count("c"), 0);
    assert_eq!(path_of(&thread).await[..1], ["a"]);
    probe.trace();
    let outcome = thread.proceed().await.unwrap();
    assert_eq!(outcome.state(), &trail(["a", "b", "c"]));
    assert_eq!(probe.count("a"), 0);
}

#[tokio::test]
async fn a_run_starts_when_its_stream_is_polled() {
    let probe = Probe::default();
    let graph = chain(["a"]).compile().unwrap();
    let stream = graph.stream(Trail::default(), probe.clone());
    tokio::task::yield_now().await;
    assert_eq!(probe.count("a"), 0);
    assert!(stream.finish().await.unwrap().is_done());
    assert_eq!(probe.count("a"), 1);
}
