//! Tests of subgraphs that run in another process. A runner stands for the other process: it sends the start as JSON to a
//! copy of the graph.

use std::{
    sync::{Arc, Mutex},
    time::SystemTime,
};

use async_trait::async_trait;
use graph_core::{
    Command, CompiledGraph, Context, EffectCall, EffectDecision, Goto, Input, Interrupt,
    MemorySaver, NodeError, Persistence, RunControl, RunError, RunOptions, RunOutcome, START,
    State, StateGraph, SubgraphSource,
    checkpoint::{CheckpointId, CheckpointKey, FrontierRecord, NewCheckpoint},
    remote::{RemoteCall, RemoteInterceptor, RemoteOutcome, RemoteParent, RemoteRunner},
    subgraph,
};
use serde_json::{Value, json};

#[derive(State, Clone, Debug, Default, PartialEq)]
struct Trip {
    mode: String,
    #[reduce(append)]
    stops: Vec<String>,
}

async fn depart(_: &Trip) -> TripUpdate {
    Trip::update().stops(["depart".to_owned()])
}

async fn travel(trip: &Trip, cx: &Context) -> Result<Command<Trip>, NodeError> {
    match trip.mode.as_str() {
        "ask" => {
            let stop: String = cx.interrupt("where to?")?;
            Ok(Command::update(Trip::update().stops([stop])))
        }
        "fail" => Err("no ticket".into()),
        "leave" => Ok(Command::parent::<Trip>(
            Trip::update().stops(["left".to_owned()]),
            Goto::node("home"),
        )),
        _ => Ok(Command::update(Trip::update().stops(["travel".to_owned()]))),
    }
}

fn trip() -> CompiledGraph<Trip> {
    let graph = StateGraph::<Trip>::new().node(depart).node(travel);
    graph.edge(START, depart).edge(depart, travel).compile().expect("the graph is valid")
}

/// Runs a copy of the graph and remembers the starts that it received, as JSON.
#[derive(Debug, Default)]
struct Loopback {
    starts: Mutex<Vec<String>>,
}

#[async_trait]
impl RemoteRunner for Loopback {
    fn runs_in(&self) -> &str {
        "copy"
    }

    async fn run(&self, call: RemoteCall) -> Result<RemoteOutcome, NodeError> {
        let start = serde_json::to_string(call.start())?;
        self.starts.lock().expect("no test panics while it holds the lock").push(start.clone());
        let start = serde_json::from_str(&start)?;
        let parent = RemoteParent {
            checkpointer: call.checkpointer().unwrap_or_else(|| Arc::new(MemorySaver::new())),
            interceptor: Arc::new(NoInterceptor),
            control: RunControl::new(),
        };
        let mut run = trip().run_remote(start, (), parent);
        while let Some(event) = run.next().await {
            call.forward(event).await?;
        }
        Ok(serde_json::from_value(serde_json::to_value(run.finish().await)?)?)
    }
}

#[derive(Debug)]
struct NoInterceptor;

#[async_trait]
impl RemoteInterceptor for NoInterceptor {
    async fn before_call(&self, _: EffectCall<'_>) -> Result<EffectDecision, NodeError> {
        Ok(EffectDecision::Execute)
    }

    async fn after_call(&self, _: EffectCall<'_>, _: Result<&Value, &NodeError>) {}
}

async fn home(_: &Trip) -> TripUpdate {
    Trip::update().stops(["home".to_owned()])
}

async fn phone(trip: &Trip, cx: &Context) -> Result<TripUpdate, NodeError> {
    if trip.mode != "ask" {
        return Ok(Trip::update());
    }
    let pin: String = cx.interrupt("your PIN?")?;
    Ok(Trip::update().stops([format!("called with {} digits", pin.len())]))
}

fn parent(
    trip: &impl SubgraphSource<(), State = Trip>,
    persistence: Persistence,
) -> CompiledGraph<Trip> {
    let input = |trip: &Trip| Trip { mode: trip.mode.clone(), ..Default::default() };
    let go = subgraph("go", trip, input, |trip: Trip| Trip::update().stops(trip.stops));
    let go = go.persistence(persistence);
    let graph = StateGraph::<Trip>::new().node(&go).node(phone).node(home);
    let graph = graph.edge(START, &go).edge(START, phone).edge(&go, home);
    graph.checkpointer(MemorySaver::new()).compile().expect("the graph is valid")
}

/// Runs a trip, answers its interrupts, runs it again, and returns the results.
async fn results(graph: &CompiledGraph<Trip>, mode: &str, steps: u32) -> Vec<String> {
    let options = RunOptions::new().step_limit(steps);
    let thread = graph.thread("t", ()).with_options(options);
    let mut results = Vec::new();
    for _ in 0..2 {
        let input = Trip::update().mode(mode).stops(["start".to_owned()]);
        let mut result = thread.run(input).await;
        if let Ok(RunOutcome::Interrupted { interrupts, .. }) = &result {
            let answer = |it: &Interrupt| {
                let value = if it.value == "your PIN?" { "1234" } else { "Rome" };
                (it.id.clone(), json!(value))
            };
            let answers: Vec<(String, Value)> = interrupts.iter().map(answer).collect();
            assert_eq!(answers.len(), 2);
            result = thread.resume_by_id(answers).await;
        }
        results.push(match result {
            Ok(outcome) => format!("{:?}", outcome.into_state()),
            Err(error) => format!("{error:?}"),
        });
    }
    results
}

#[tokio::test]
async fn remote_subgraph_has_the_results_of_an_ordinary_one() {
    for persistence in [Persistence::Invocation, Persistence::Thread, Persistence::None] {
        for (mode, steps) in [("", 10), ("ask", 10), ("fail", 10), ("leave", 10), ("", 1)] {
            let remote = trip().remote(Arc::new(Loopback::default()));
            let actual = results(&parent(&remote, persistence), mode, steps).await;
            let expected = results(&parent(&trip(), persistence), mode, steps).await;
            assert_eq!(actual, expected, "{persistence:?}, mode `{mode}`, {steps} steps");
        }
    }
}

#[tokio::test]
async fn remote_graph_is_a_node_of_a_graph_with_the_same_state() {
    let remote = trip().remote(Arc::new(Loopback::default()));
    let graph = StateGraph::<Trip>::new().node(&remote).edge(START, &remote).compile().unwrap();
    let trip = graph.invoke(Trip { stops: vec!["start".into()], ..Default::default() }, ()).await;
    assert_eq!(trip.unwrap().stops, ["start", "depart", "travel"]);
}

#[tokio::test]
async fn answers_to_other_interrupts_are_not_sent() {
    let runner = Arc::new(Loopback::default());
    let graph = parent(&trip().remote(runner.clone()), Persistence::Invocation);
    results(&graph, "ask", 10).await;
    let starts = runner.starts.lock().unwrap();
    assert_eq!(starts.iter().filter(|it| it.contains("Rome")).count(), 2);
    assert!(!starts.iter().any(|it| it.contains("1234")), "{starts:?}");
}

/// A process that claims an interrupt of another graph, or an id that is not its own.
#[derive(Debug)]
struct Forger {
    namespace: Option<&'static str>,
}

#[async_trait]
impl RemoteRunner for Forger {
    fn runs_in(&self) -> &str {
        "copy"
    }

    async fn run(&self, call: RemoteCall) -> Result<RemoteOutcome, NodeError> {
        let namespace = self.namespace.unwrap_or(call.start().namespace());
        let interrupt = json!({ "id": "0", "value": "your PIN?", "namespace": namespace });
        let outcome = json!({
            "end": { "interrupted": [interrupt] },
            "took_resume_value": false,
            "visited": [],
        });
        Ok(serde_json::from_value(outcome)?)
    }
}

#[tokio::test]
async fn interrupts_of_other_graphs_are_refused() {
    for namespace in [Some("phone:0"), None] {
        let forger = trip().remote(Arc::new(Forger { namespace }));
        let graph = parent(&forger, Persistence::Invocation);
        let input = Input::update(Trip::update().mode(""));
        let error = graph.thread("t", ()).run(input).await.unwrap_err();
        assert!(matches!(&error, RunError::Node { terminal: true, .. }), "{error}");
        assert!(error.to_string().contains("sent data of another graph"), "{error}");
    }
}

/// A process whose clock is centuries ahead.
#[derive(Debug)]
struct FromTheFuture;

#[async_trait]
impl RemoteRunner for FromTheFuture {
    fn runs_in(&self) -> &str {
        "copy"
    }

    async fn run(&self, call: RemoteCall) -> Result<RemoteOutcome, NodeError> {
        let (thread, namespace) = (call.start().thread(), call.start().namespace());
        let header = json!({
            "parent": null,
            "origin": CheckpointId::next(),
            "step": 0,
            "source": "loop",
            "created_at": SystemTime::UNIX_EPOCH,
            "run": "r",
            "version": 1,
        });
        let checkpoint = NewCheckpoint {
            key: CheckpointKey {
                thread: thread.unwrap_or_default().to_owned(),
                namespace: namespace.to_owned(),
                id: CheckpointId::from_bytes([0xf0; 16]),
            },
            expected_head: None,
            base: None,
            header: serde_json::from_value(header)?,
            frontier: FrontierRecord::default(),
            changes: Vec::new(),
        };
        let saver = call.checkpointer().ok_or("the parent stores checkpoints")?;
        Err(saver.put(checkpoint).await.err().map_or("it was stored".into(), Into::into))
    }
}

#[tokio::test]
async fn checkpoint_ids_far_in_the_future_are_refused() {
    let graph = parent(&trip().remote(Arc::new(FromTheFuture)), Persistence::Invocation);
    let error = graph.thread("t", ()).run(Trip::update().mode("")).await.unwrap_err();
    assert!(error.to_string().contains("ahead; correct it"), "{error}");
}
