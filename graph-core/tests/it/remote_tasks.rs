//! Tests of single tasks that run in another process. A runner simulates the other process: it sends the start as JSON
//! to a copy of the graph.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use graph_core::{
    Command, CompiledGraph, Context, END, Goto, Input, MemorySaver, NoRoute, NodeError, NodeExt,
    Persistence, RetryPolicy, Route, RunOptions, RunOutcome, START, State, StateGraph, StreamMode,
    remote::{
        EffectRecorder, RemoteTaskCall, RemoteTaskHost, RemoteTaskOutcome, RemoteTaskRunner,
        TaskPlacement,
    },
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Job {
    mode: String,
    #[reduce(append)]
    log: Vec<String>,
}

#[derive(Route)]
enum Parts {
    #[to(part)]
    Send(Vec<u32>),
}

fn split(job: &Job) -> Parts {
    Parts::Send((0..if job.mode == "alone" { 1 } else { 4 }).collect())
}

/// Number of external calls that the nodes have made.
type Calls = Arc<AtomicU32>;

async fn part(number: u32, cx: &Context<Calls>) -> Result<JobUpdate, NodeError> {
    let calls = cx.deps();
    let pay = async {
        calls.fetch_add(1, Ordering::Relaxed);
        Ok(number * 10)
    };
    let paid: u32 = cx.task("pay", number, pay).await?;
    cx.emit(json!({ "part": number })).await;
    Ok(Job::update().log([format!("{number} for {paid}")]))
}

async fn review(job: &Job, cx: &Context<Calls>) -> Result<Command<Job, NoRoute, Goto>, NodeError> {
    let calls = cx.deps();
    match job.mode.as_str() {
        "ask" => {
            let fee: u32 =
                cx.task("fee", (), async { Ok(calls.fetch_add(1, Ordering::Relaxed)) }).await?;
            let answer: String = cx.interrupt("good?")?;
            Ok(Command::update(Job::update().log([format!("{answer} after {fee}")])))
        }
        "retry" if cx.attempt() == 1 => Err(std::io::Error::other("busy").into()),
        "fail" => Err(NodeError::terminal("no review")),
        "parent" => Ok(Command::parent::<Job>(Job::update(), Goto::node("home"))),
        "graph" => {
            let inner = StateGraph::<Job, Calls>::new().node(inner).edge(START, inner).compile()?;
            let input = Job { mode: "inner".into(), ..Default::default() };
            let result = cx.run_graph(&inner, Persistence::Invocation, input).await?;
            Ok(Command::update(Job::update().log(result.map(|it| it.log).unwrap_or_default())))
        }
        _ => Ok(Command::update(Job::update().log([format!("{} parts", job.log.len())]))),
    }
}

async fn inner(_: &Job) -> JobUpdate {
    Job::update().log(["inner".to_owned()])
}

async fn recover(_: &Job, cx: &Context<Calls>) -> JobUpdate {
    let error = cx.failure().map(|it| it.error.clone()).unwrap_or_default();
    Job::update().log([format!("recovered from {error}")])
}

#[derive(Route)]
enum Next {
    #[to(review)]
    Again,
    #[to(END)]
    Over,
}

fn next(job: &Job) -> Next {
    if job.log.len() < 3 { Next::Again } else { Next::Over }
}

fn graph() -> CompiledGraph<Job, Calls> {
    let policy = RetryPolicy::max_attempts(2).backoff(Duration::from_millis(1), 1.0);
    let policy = policy.without_jitter();
    let review = review.retry(policy).pool("reviewers");
    StateGraph::<Job, Calls>::new()
        .node(part)
        .node(review.on_error(recover))
        .branch(START, split)
        .edge(part, self::review)
        .branch(self::review, next)
        .checkpointer(MemorySaver::new())
        .compile()
        .expect("the graph is valid")
}

/// Runs tasks in a copy of the graph. A repeated execution gets the effects that the first one has recorded.
#[derive(Debug, Default)]
struct Loopback {
    placed: Mutex<Vec<(String, Option<String>)>>,
    min_tasks: usize,
    /// Whether each task is executed twice, as after the death of a worker.
    repeats: bool,
    calls: Calls,
}

#[async_trait]
impl RemoteTaskRunner for Loopback {
    fn accepts(&self, task: TaskPlacement<'_>) -> bool {
        task.pool.is_some() || task.tasks_in_step >= self.min_tasks
    }

    async fn run(&self, call: RemoteTaskCall) -> Result<RemoteTaskOutcome, NodeError> {
        let start = serde_json::to_value(call.start())?;
        let placed = (call.task().to_string(), call.required_pool().map(str::to_owned));
        self.placed.lock().expect("no test panics while it holds the lock").push(placed);
        let recorder = Arc::new(Recorder::default());
        if self.repeats {
            let host = RemoteTaskHost { effects: BTreeMap::new(), recorder: recorder.clone() };
            let start = serde_json::from_value(start.clone())?;
            graph().run_remote_task(start, self.calls.clone(), host).finish().await;
        }
        let effects = recorder.0.lock().expect("no test panics while it holds the lock").clone();
        let host = RemoteTaskHost { effects, recorder: recorder.clone() };
        let start = serde_json::from_value(start)?;
        let mut run = graph().run_remote_task(start, self.calls.clone(), host);
        while let Some(event) = run.next().await {
            call.forward(event).await;
        }
        let outcome = serde_json::to_value(run.finish().await)?;
        let effects = recorder.0.lock().expect("no test panics while it holds the lock").clone();
        for (key, result) in effects {
            call.record_effect(key, result).await?;
        }
        Ok(serde_json::from_value(outcome)?)
    }
}

#[derive(Debug, Default)]
struct Recorder(Mutex<BTreeMap<String, Value>>);

#[async_trait]
impl EffectRecorder for Recorder {
    async fn record_effect(&self, key: &str, result: &Value) -> Result<(), NodeError> {
        let mut effects = self.0.lock().expect("no test panics while it holds the lock");
        effects.insert(key.to_owned(), result.clone());
        Ok(())
    }
}

/// The observable result of a run: its events without times and ids, its outcome, and the states of the thread.
#[derive(Debug, PartialEq)]
struct Observed {
    events: Vec<String>,
    outcome: String,
    states: Vec<Job>,
}

const MODES: [StreamMode; 5] = [
    StreamMode::Updates,
    StreamMode::Values,
    StreamMode::Custom,
    StreamMode::Effects,
    StreamMode::Tasks,
];

/// Runs a job to its end and answers its interrupt. Returns its observable result, and the number of external calls.
async fn observe(mode: &str, runner: Option<Arc<Loopback>>) -> (Observed, u32) {
    let calls = runner.as_ref().map(|it| it.calls.clone()).unwrap_or_default();
    let mut options = RunOptions::new().stream_modes(MODES);
    if let Some(runner) = runner {
        options = options.task_runner(runner);
    }
    let graph = graph();
    let thread = graph.thread("t", calls.clone()).with_options(options);
    let mut input = Input::from(Job { mode: mode.to_owned(), ..Default::default() });
    let mut events = Vec::new();
    let outcome = loop {
        let mut stream = thread.stream(input);
        while let Some(event) = stream.next().await {
            let kind = serde_json::to_value(&event.kind).expect("events are serialisable");
            events.push(format!("{} {:?} {}", event.step, event.node, without_ids(kind)));
        }
        match stream.finish().await {
            Ok(RunOutcome::Interrupted { .. }) => {
                input = Input::resume("yes").expect("a string is serialisable");
            }
            outcome => break outcome,
        }
    };
    // Tasks of one step finish in any order.
    events.sort();
    let history = thread.history(None).await.expect("the thread exists");
    let states = history.into_iter().map(|it| it.values).collect();
    let outcome = match outcome {
        Ok(outcome) => format!("{:?}", outcome.state()),
        Err(error) => error.to_string(),
    };
    (Observed { events, outcome, states }, calls.load(Ordering::Relaxed))
}

/// Replaces ids, which differ from thread to thread.
fn without_ids(value: Value) -> Value {
    let is_id =
        |it: &str| it.len() >= 16 && it.chars().all(|it| it.is_ascii_hexdigit() || it == '-');
    match value {
        Value::String(text) if text.split([':', '|']).any(is_id) => json!("id"),
        Value::Array(items) => items.into_iter().map(without_ids).collect(),
        Value::Object(fields) => {
            Value::Object(fields.into_iter().map(|(key, it)| (key, without_ids(it))).collect())
        }
        value => value,
    }
}

const JOBS: [&str; 7] = ["plain", "alone", "ask", "retry", "fail", "parent", "graph"];

#[tokio::test]
async fn result_events_and_history_equal_those_of_a_local_run() {
    for mode in JOBS {
        let (expected, calls) = observe(mode, None).await;
        let runner = Arc::new(Loopback { min_tasks: 4, ..Default::default() });
        let (observed, remote_calls) = observe(mode, Some(runner.clone())).await;
        assert_eq!(observed, expected, "job `{mode}`");
        assert_eq!(remote_calls, calls, "job `{mode}`");
        let placed = runner.placed.lock().expect("no test panics while it holds the lock").clone();
        let pooled = placed.iter().filter(|it| it.1.as_deref() == Some("reviewers")).count();
        assert!(pooled >= 1, "job `{mode}`: {placed:?}");
        assert_eq!(placed.len() - pooled, if mode == "alone" { 0 } else { 4 }, "job `{mode}`");
    }
}

#[tokio::test]
async fn recorded_effects_are_not_repeated_by_a_second_execution() {
    for mode in ["plain", "ask"] {
        let (expected, calls) = observe(mode, None).await;
        let runner = Arc::new(Loopback { min_tasks: 4, repeats: true, ..Default::default() });
        let (observed, remote_calls) = observe(mode, Some(runner)).await;
        assert_eq!((observed.outcome, observed.states), (expected.outcome, expected.states));
        assert_eq!(remote_calls, calls, "job `{mode}`");
    }
}

/// A state with a value that no other process can receive.
#[derive(State, Clone, Debug, Default)]
struct Open {
    #[reduce(untracked)]
    handle: u32,
    seen: u32,
}

async fn use_handle(open: &Open) -> OpenUpdate {
    Open::update().seen(open.handle)
}

#[tokio::test]
async fn tasks_of_a_graph_with_untracked_fields_run_in_the_process_of_the_run() {
    let graph = StateGraph::<Open>::new().node(use_handle.pool("any")).edge(START, use_handle);
    let graph = graph.compile().expect("the graph is valid");
    let runner = Arc::new(Loopback::default());
    let options = RunOptions::new().task_runner(runner.clone());
    assert_eq!(graph.immovable_pool_nodes(), ["use_handle"]);
    let done = graph.with(options).invoke(Open { handle: 7, seen: 0 }, ()).await;
    assert_eq!(done.expect("the run completes").seen, 7);
    assert!(runner.placed.lock().expect("no test panics while it holds the lock").is_empty());
}
