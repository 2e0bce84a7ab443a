//! Streams: each view, the order of events, subgraphs, and back-pressure.

use graph_core::{
    CachePolicy, Configure, Context, Event, EventKind, MemoryCache, MemorySaver, Mode, NodeError,
    RunError, RunOptions, RunStream, START, State, StateGraph, checkpoint::Source, subgraph,
};
use serde_json::json;

use crate::support::{
    Trail, TrailUpdate, World, ask, been, chain, diamond, graph, pass, path_of, settle, trail,
};

async fn all<S: State>(stream: &mut RunStream<S>) -> Vec<Event> {
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        events.push(event);
    }
    events
}

/// An event in a word or two.
fn shown(event: &Event) -> String {
    let node = event.node.as_deref().unwrap_or("-");
    match &event.kind {
        EventKind::Values(values) => format!("values {}", values.to_json()["path"]),
        EventKind::Update { cached, .. } => {
            format!("update {node}{}", if *cached { " cached" } else { "" })
        }
        EventKind::Interrupted(asked) => format!("interrupted {}", asked.len()),
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

async fn events_of(graph: StateGraph<Trail, World>, modes: &[Mode]) -> Vec<String> {
    let graph = graph.compile().expect("the graph is sound");
    let options = RunOptions::new().modes(modes.iter().copied());
    let mut stream = graph.stream(Trail::default(), World::default(), options);
    all(&mut stream).await.iter().map(shown).collect()
}

async fn talk(_: &Trail, cx: &Context<World>) -> TrailUpdate {
    cx.emit(json!({"at": 1})).await;
    cx.message("word").await;
    been("talk")
}

#[tokio::test]
async fn values_are_shown_after_each_step_that_writes() {
    let events = events_of(chain(["a", "b"]), &[Mode::Values]).await;
    assert_eq!(events, ["values []", r#"values ["a"]"#, r#"values ["a","b"]"#]);
}

#[tokio::test]
async fn updates_are_shown_as_tasks_finish() {
    let graph = chain(["a", "b"]).compile().unwrap();
    let mut stream = graph.stream(Trail::default(), World::default(), RunOptions::new());
    let events = all(&mut stream).await;
    assert_eq!(events.iter().map(shown).collect::<Vec<_>>(), ["update a", "update b"]);
    let EventKind::Update { writes, .. } = &events[0].kind else { panic!("an update") };
    assert_eq!((writes[0].field.as_str(), &writes[0].value), ("path", &json!(["a"])));
    assert_eq!(events.iter().map(|it| it.step).collect::<Vec<_>>(), [1, 2]);
}

#[tokio::test]
async fn nodes_write_to_the_streams_of_custom_events_and_messages() {
    let built = || graph().node(talk).edge(START, talk);
    assert_eq!(events_of(built(), &[Mode::Custom]).await, [r#"custom talk {"at":1}"#]);
    assert_eq!(events_of(built(), &[Mode::Messages]).await, [r#"message talk "word""#]);
    let both = events_of(built(), &[Mode::Custom, Mode::Messages, Mode::Updates]).await;
    assert_eq!(both, [r#"custom talk {"at":1}"#, r#"message talk "word""#, "update talk"]);
}

#[tokio::test]
async fn tasks_are_shown_with_their_input_and_their_end() {
    let world = World::default();
    let graph = diamond().checkpointer(MemorySaver::new()).compile().unwrap();
    world.breaks("c", 1);
    let options = RunOptions::new().modes([Mode::Tasks]);
    let mut stream = graph.thread("t", world).with(options).stream(Trail::default());
    let events = all(&mut stream).await;
    let shown: Vec<_> = events.iter().map(shown).collect();
    assert_eq!(shown[..2], ["start a", "end a"]);
    assert_eq!(shown[2..4], ["start b", "start c"]);
    assert!(
        shown[4..].contains(&"end b".to_owned()) && shown[4..].contains(&"end c failed".to_owned())
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
async fn checkpoints_are_shown_as_they_are_made() {
    let graph = chain(["a"]).checkpointer(MemorySaver::new()).compile().unwrap();
    let thread = graph.thread("t", World::default());
    let options = RunOptions::new().modes([Mode::Checkpoints]);
    let mut stream = thread.clone().with(options).stream(Trail::default());
    let events = all(&mut stream).await;
    let shown: Vec<_> = events.iter().map(shown).collect();
    assert_eq!(
        shown,
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
async fn events_are_numbered_without_a_gap_and_belong_to_the_run() {
    let graph = diamond().compile().unwrap();
    let options = RunOptions::new().modes(Mode::DEBUG).run_named("r");
    let mut stream = graph.stream(Trail::default(), World::default(), options);
    let events = all(&mut stream).await;
    assert!(events.len() > 10);
    for (number, event) in (0..).zip(&events) {
        assert_eq!((event.seq, &*event.run), (number, "r"));
    }
    assert_eq!(stream.finish().await.unwrap().state(), &trail(["a", "b", "c", "d"]));
}

#[tokio::test]
async fn a_state_in_an_event_has_its_type() {
    let graph = chain(["a"]).compile().unwrap();
    let options = RunOptions::new().modes([Mode::Values]);
    let mut stream = graph.stream(Trail::default(), World::default(), options);
    let events = all(&mut stream).await;
    let EventKind::Values(values) = &events[1].kind else { panic!("values") };
    assert_eq!(values.get::<Trail>(), Some(&trail(["a"])));
    assert!(values.get::<Inner>().is_none());
}

#[tokio::test]
async fn a_question_is_an_event() {
    let built = graph().node(ask).edge(START, ask).checkpointer(MemorySaver::new());
    let thread = built.compile().unwrap().thread("t", World::default());
    let mut stream = thread.stream(Trail::default());
    let events = all(&mut stream).await;
    assert_eq!(events.iter().map(shown).collect::<Vec<_>>(), ["interrupted 1"]);
    let exit = stream.finish().await.unwrap();
    assert_eq!(exit.interrupts().len(), 1);
    let mut stream = thread.stream(graph_core::Input::resume("yes").unwrap());
    assert_eq!(all(&mut stream).await.iter().map(shown).collect::<Vec<_>>(), ["update ask"]);
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
        let mut stream = graph.stream(Trail::default(), World::default(), RunOptions::new());
        assert_eq!(all(&mut stream).await.iter().map(shown).collect::<Vec<_>>(), [expect]);
    }
}

#[derive(State, Clone, Debug, Default)]
struct Inner {
    #[reduce(append)]
    path: Vec<String>,
}

async fn deep(_: &Inner, cx: &Context<World>) -> InnerUpdate {
    cx.emit("deep").await;
    Inner::update().path(["deep".to_owned()])
}

/// `deep` in `low` in `high`.
fn nested() -> StateGraph<Trail, World> {
    let low = StateGraph::<Inner, World>::new().node(deep).edge(START, deep).compile();
    let low = low.expect("the graph is sound");
    let same = |it: Inner| Inner::update().path(it.path);
    let high = StateGraph::<Inner, World>::new()
        .node(subgraph("low", &low, |_: &Inner| Inner::default(), same))
        .edge(START, "low")
        .compile()
        .expect("the graph is sound");
    let out = |it: Inner| Trail::update().path(it.path);
    graph().node(subgraph("high", &high, |_: &Trail| Inner::default(), out)).edge(START, "high")
}

#[tokio::test]
async fn events_of_subgraphs_say_where_they_come_from() {
    let graph = nested().compile().unwrap();
    let options = RunOptions::new().modes([Mode::Updates, Mode::Custom]).subgraphs();
    let mut stream = graph.stream(Trail::default(), World::default(), options);
    let events = all(&mut stream).await;
    let place = |event: &Event| {
        let parts = event.namespace.split('|').map(|it| it.split(':').next().unwrap_or(it));
        format!("{}/{}", parts.collect::<Vec<_>>().join("|"), shown(event))
    };
    let shown: Vec<_> = events.iter().map(place).collect();
    let expect = [
        r#"high|low/custom deep "deep""#,
        "high|low/update deep",
        "high/update low",
        "/update high",
    ];
    assert_eq!(shown, expect);
    assert_eq!(events.iter().map(|it| it.seq).collect::<Vec<_>>(), [0, 1, 2, 3]);
}

#[tokio::test]
async fn events_of_subgraphs_are_left_out_unless_asked_for() {
    assert_eq!(events_of(nested(), &[Mode::Updates, Mode::Custom]).await, ["update high"]);
}

/// Emits ten events, noting each.
async fn chatter(_: &Trail, cx: &Context<World>) -> Result<(), NodeError> {
    for number in 0..10 {
        cx.emit(number).await;
        cx.deps().visit(cx.step(), "emitted").await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_reader_that_stops_reading_stops_the_run() {
    let world = World::default();
    let graph = graph()
        .node(chatter)
        .node(pass)
        .edge(START, chatter)
        .edge(chatter, pass)
        .compile()
        .unwrap();
    let options = RunOptions::new().modes([Mode::Custom]).buffer(1);
    let mut stream = graph.stream(Trail::default(), world.clone(), options);
    for read in 1..=3 {
        assert!(stream.next().await.is_some());
        settle().await;
        let ahead = world.count("emitted");
        assert!(ahead <= read + 1, "{ahead} events emitted, {read} read");
    }
    assert_eq!(world.count("pass"), 0);
    assert!(stream.finish().await.unwrap().is_done());
    assert_eq!((world.count("emitted"), world.count("pass")), (10, 1));
}

#[tokio::test]
async fn dropping_the_stream_ends_the_run_and_the_thread_goes_on() {
    let world = World::default();
    let graph = chain(["a", "b", "c"]).checkpointer(MemorySaver::new()).compile().unwrap();
    let thread = graph.thread("t", world.clone());
    let mut stream = thread.clone().with(RunOptions::new().buffer(1)).stream(Trail::default());
    assert_eq!(shown(&stream.next().await.unwrap()), "update a");
    drop(stream);
    settle().await;
    assert_eq!(world.count("c"), 0);
    assert_eq!(path_of(&thread).await[..1], ["a"]);
    world.trace();
    let exit = thread.proceed().await.unwrap();
    assert_eq!(exit.state(), &trail(["a", "b", "c"]));
    assert_eq!(world.count("a"), 0);
}

#[tokio::test]
async fn a_run_starts_when_its_stream_is_read() {
    let world = World::default();
    let graph = chain(["a"]).compile().unwrap();
    let stream = graph.stream(Trail::default(), world.clone(), RunOptions::new());
    tokio::task::yield_now().await;
    assert_eq!(world.count("a"), 0);
    assert!(stream.finish().await.unwrap().is_done());
    assert_eq!(world.count("a"), 1);
}
