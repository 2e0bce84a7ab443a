//! Tests of subgraphs that run in another process. A runner simulates the other process: it sends the start as JSON to
//! a copy of the graph.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::SystemTime,
};

use async_trait::async_trait;
use graph_core::{
    Command, CompiledGraph, Context, Durability, EffectCall, EffectDecision, Goto, Input,
    Interrupt, MemorySaver, NoRoute, NodeError, NodeExt, Persistence, RunControl, RunError,
    RunOptions, RunOutcome, START, State, StateGraph, SubgraphSource,
    checkpoint::{CheckpointId, CheckpointKey, FrontierRecord, NewCheckpoint},
    remote::{RemoteCall, RemoteInterceptor, RemoteOutcome, RemoteParent, RemoteRunner},
    subgraph,
};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::support::thread_of;

#[derive(State, Clone, Debug, Default, PartialEq)]
struct Trip {
    mode: String,
    #[reduce(append)]
    stops: Vec<String>,
}

async fn depart(_: &Trip) -> TripUpdate {
    Trip::update().stops(["depart".to_owned()])
}

async fn travel(trip: &Trip, cx: &Context) -> Result<Command<Trip, NoRoute, Goto>, NodeError> {
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
    allows_parent_commands: bool,
}

#[async_trait]
impl RemoteRunner for Loopback {
    fn runs_in(&self) -> &str {
        "copy"
    }

    fn allows_parent_commands(&self) -> bool {
        self.allows_parent_commands
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
            let runner = Loopback { allows_parent_commands: true, ..Default::default() };
            let remote = trip().remote(Arc::new(runner));
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

#[tokio::test]
async fn commands_to_the_parent_are_rejected_by_default() {
    let graph = parent(&trip().remote(Arc::new(Loopback::default())), Persistence::Invocation);
    let error = graph.thread("t", ()).run(Trip::update().mode("leave")).await.unwrap_err();
    assert!(matches!(&error, RunError::Node { terminal: true, .. }), "{error}");
    assert!(error.to_string().contains("`SandboxOptions::allow_parent_commands`"), "{error}");
}

/// A process that returns a forged outcome.
#[derive(Debug)]
struct Forger {
    /// Creates the field `end` of the outcome from the namespace of the subgraph.
    end: fn(&str) -> Value,
    allows_interrupts: bool,
}

#[async_trait]
impl RemoteRunner for Forger {
    fn runs_in(&self) -> &str {
        "copy"
    }

    fn allows_interrupts(&self) -> bool {
        self.allows_interrupts
    }

    async fn run(&self, call: RemoteCall) -> Result<RemoteOutcome, NodeError> {
        let end = (self.end)(call.start().namespace());
        let outcome = json!({ "end": end, "took_resume_value": false, "visited": [] });
        Ok(serde_json::from_value(outcome)?)
    }
}

fn interrupted(count: usize, namespace: &str) -> Value {
    let interrupt = json!({ "id": "0", "value": "your PIN?", "namespace": namespace });
    json!({ "interrupted": vec![interrupt; count] })
}

#[tokio::test]
async fn forged_outcomes_are_rejected() {
    let cases: [(fn(&str) -> Value, &str); 6] = [
        (|_| interrupted(1, "phone:0"), "sent data of another graph"),
        (|own| interrupted(1, own), "sent data of another graph"),
        (|own| interrupted(0, own), "raised 0 interrupts"),
        (|own| interrupted(1001, own), "raised 1001 interrupts"),
        (|own| interrupted(1, &format!("{own}|{}", "n".repeat(5000))), "bytes; at most 4096"),
        (|_| json!({ "stopped": "drained" }), "the run is not being drained"),
    ];
    for (end, problem) in cases {
        let forger = trip().remote(Arc::new(Forger { end, allows_interrupts: true }));
        let graph = parent(&forger, Persistence::Invocation);
        let input = Input::update(Trip::update().mode(""));
        let error = graph.thread("t", ()).run(input).await.unwrap_err();
        assert!(matches!(&error, RunError::Node { terminal: true, .. }), "{error}");
        assert!(error.to_string().contains(problem), "{error}");
    }
}

/// Runs a subgraph that returns a forged interrupt or stop, which the host denies. Adds the error to the field `stops`.
async fn run_denied(trip: &Trip, cx: &Context) -> TripUpdate {
    let end: fn(&str) -> Value = match trip.mode.as_str() {
        "before" => |_| json!({ "stopped": "before" }),
        "after" => |_| json!({ "stopped": "after" }),
        _ => |own| interrupted(1, own),
    };
    let forger = self::trip().remote(Arc::new(Forger { end, allows_interrupts: false }));
    let result = cx.run_graph(&forger, Persistence::Invocation, Trip::default()).await;
    let error = result.expect_err("the host denies interrupts and stops");
    Trip::update().stops([error.to_string()])
}

#[tokio::test]
async fn nodes_can_handle_denied_interrupts_and_stops() {
    let graph = StateGraph::<Trip>::new().node(run_denied).edge(START, run_denied);
    let graph = graph.compile().unwrap();
    for mode in ["interrupt", "before", "after"] {
        let trip = Trip { mode: mode.to_owned(), ..Trip::default() };
        let stops = graph.invoke(trip, ()).await.unwrap().stops;
        assert!(stops[0].contains("`SandboxOptions::deny_interrupts`"), "{mode}: {stops:?}");
    }
}

/// A process that stores a checkpoint with this id and this expected head, and fails with the error.
#[derive(Debug)]
struct ForgedWriter {
    id: CheckpointId,
    expected_head: Option<CheckpointId>,
}

#[async_trait]
impl RemoteRunner for ForgedWriter {
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
                id: self.id,
            },
            expected_head: self.expected_head,
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
async fn checkpoint_ids_far_in_the_future_are_rejected() {
    // The clock of the process is centuries ahead.
    let writer = ForgedWriter { id: CheckpointId::from_bytes([0xf0; 16]), expected_head: None };
    let graph = parent(&trip().remote(Arc::new(writer)), Persistence::Invocation);
    let error = graph.thread("t", ()).run(Trip::update().mode("")).await.unwrap_err();
    assert!(error.to_string().contains("ahead; correct it"), "{error}");
}

#[tokio::test]
async fn invalid_checkpoint_of_the_process_fails_only_the_process() {
    let writer =
        ForgedWriter { id: CheckpointId::next(), expected_head: Some(CheckpointId::next()) };
    let remote = trip().remote(Arc::new(writer));
    let go = subgraph("go", &remote, |_: &Trip| Trip::default(), |_: Trip| Trip::update());
    async fn recover(_: &Trip, cx: &Context) -> TripUpdate {
        Trip::update().stops([cx.failure().map(|it| it.error.clone()).unwrap_or_default()])
    }
    let graph = StateGraph::<Trip>::new().node(go.clone().on_error(recover)).edge(START, &go);
    let outcome = thread_of(graph, &()).run(Trip::update().mode("")).await.unwrap();
    let stops = &outcome.state().stops;
    assert!(stops.len() == 1 && stops[0].contains("checkpoint"), "{stops:?}");
}

/// The dependency of a guest that may die in the node `work`.
#[derive(Clone)]
struct Guest {
    is_first: bool,
    died: Arc<Notify>,
}

async fn review(_: &Trip, cx: &Context<Guest>) -> Result<TripUpdate, NodeError> {
    let answer: String = cx.interrupt("review")?;
    Ok(Trip::update().stops([format!("review: {answer}")]))
}

async fn work(_: &Trip, cx: &Context<Guest>) {
    if cx.deps().is_first {
        cx.deps().died.notify_one();
        std::future::pending().await
    }
}

async fn approve(_: &Trip, cx: &Context<Guest>) -> Result<TripUpdate, NodeError> {
    let answer: String = cx.interrupt("approve")?;
    Ok(Trip::update().stops([format!("approve: {answer}")]))
}

fn approval() -> CompiledGraph<Trip, Guest> {
    let graph = StateGraph::<Trip, Guest>::new().node(review).node(work).node(approve);
    graph
        .edge(START, review)
        .edge(review, work)
        .edge(work, approve)
        .compile()
        .expect("the graph is valid")
}

/// Runs the graph in guests, the first of which dies in the node `work`.
#[derive(Debug)]
struct Mortal {
    /// Whether the runner replaces the guest. Otherwise it fails, and the node is retried.
    replaces: bool,
    has_died: AtomicBool,
}

#[async_trait]
impl RemoteRunner for Mortal {
    fn runs_in(&self) -> &str {
        "copy"
    }

    async fn run(&self, call: RemoteCall) -> Result<RemoteOutcome, NodeError> {
        let mut start = call.start().clone();
        loop {
            let parent = RemoteParent {
                checkpointer: call.checkpointer().ok_or("the parent stores checkpoints")?,
                interceptor: Arc::new(NoInterceptor),
                control: RunControl::new(),
            };
            let is_first = !self.has_died.load(Ordering::Relaxed);
            let guest = Guest { is_first, died: Arc::new(Notify::new()) };
            let died = guest.died.clone();
            let run = approval().run_remote(start.clone(), guest, parent);
            tokio::select! {
                outcome = run.finish() => return Ok(outcome),
                () = died.notified() => self.has_died.store(true, Ordering::Relaxed),
            }
            if !self.replaces {
                return Err("the guest died".into());
            }
            start.resume_in_new_process();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn answer_is_not_reused_for_another_interrupt_after_a_guest_dies() {
    for replaces in [true, false] {
        let runner = Arc::new(Mortal { replaces, has_died: AtomicBool::new(false) });
        let input = |_: &Trip| Trip::default();
        let output = |trip: Trip| Trip::update().stops(trip.stops);
        let go = subgraph("go", &approval().remote(runner), input, output);
        let graph = StateGraph::<Trip>::new().node(go.clone().retry(2)).edge(START, &go);
        let options = RunOptions::new().durability(Durability::Sync);
        let thread = thread_of(graph, &()).with_options(options);
        let outcome = thread.run(Trip::update().mode("")).await.unwrap();
        assert_eq!(outcome.interrupts()[0].value, "review");
        let outcome = thread.resume("yes").await.unwrap();
        assert_eq!(outcome.interrupts()[0].value, "approve", "replaces: {replaces}");
        let outcome = thread.resume("no").await.unwrap();
        assert_eq!(outcome.state().stops, ["review: yes", "approve: no"]);
    }
}

/// A process that queries the effect interceptor about calls of its own tasks and of other tasks.
#[derive(Debug)]
struct Snoop;

#[async_trait]
impl RemoteRunner for Snoop {
    fn runs_in(&self) -> &str {
        "copy"
    }

    async fn run(&self, call: RemoteCall) -> Result<RemoteOutcome, NodeError> {
        let is_own = |task_path: &str| call.before_call(EffectCall { task_path, key: "k" }).is_ok();
        let step = (0..9).find(|it| is_own(&format!("{it}:go/0:depart"))).ok_or("no own path")?;
        for other in ["go", "go.private", "go.1/0:depart", "go#1/0:depart", "home"] {
            assert!(!is_own(&format!("{step}:{other}")), "{other}");
        }
        Err("the process has ended".into())
    }
}

#[tokio::test]
async fn calls_of_other_tasks_are_rejected() {
    let graph = parent(&trip().remote(Arc::new(Snoop)), Persistence::Invocation);
    let error = graph.thread("t", ()).run(Trip::update().mode("")).await.unwrap_err();
    assert!(error.to_string().contains("the process has ended"), "{error}");
}
