//! Random graphs whose nodes declare their fields, for comparing eager graphs with ordinary ones.
//!
//! A node writes a hash of everything that it sees, so a task that sees a wrong value changes the result. The latency of
//! a task is the number of times that it yields, which depends on a seed.

use std::{
    collections::{BTreeMap, BTreeSet, hash_map::DefaultHasher},
    hash::{Hash, Hasher},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use checkpoint_testkit::{HookedSaver, WriteHook};
use fastrand::Rng;
use graph_core::{
    Checkpointer, CompiledGraph, Context, Durability, EventKind, Goto, Input, JsonFieldKind,
    JsonState, JsonStateSchema, MemorySaver, NodeError, NodeExt, RunError, RunOptions, RunOutcome,
    START, StateGraph, StreamMode, Thread,
    checkpoint::{CheckpointError, CheckpointWrite, Lookup, TaskEvent, TaskId},
    json::{JsonCommand, JsonInput, JsonReturn, json_node},
};
use serde_json::{Value, json};

const NAMES: [&str; 8] = ["d", "a", "g", "b", "h", "c", "f", "e"];
const FIELDS: [&str; 5] = ["list", "sum", "map", "one", "text"];
/// Maximum number of runs until a graph must be complete.
const MAX_RUNS: usize = 60;

/// The description of a graph.
#[derive(Clone, Debug)]
pub(crate) struct EagerSpec {
    nodes: Vec<Node>,
    joins: Vec<(Vec<usize>, usize)>,
    limit: u32,
}

#[derive(Clone, Debug, Default)]
struct Node {
    reads: Option<Vec<&'static str>>,
    writes: Vec<&'static str>,
    /// Whether the writes are declared.
    declares_writes: bool,
    edges: Vec<usize>,
    /// Nodes that the node leads to if the hash of its input is even.
    gotos: Vec<usize>,
    sends: Option<usize>,
    from_start: bool,
    interrupts: bool,
    defer: bool,
    fails: bool,
    effect: bool,
}

impl EagerSpec {
    /// Generates a graph. Without faults, no node fails and no step limit is reached.
    pub(crate) fn new(seed: u64, faults: bool) -> Self {
        let mut rng = Rng::with_seed(seed);
        let count = rng.usize(3..=NAMES.len());
        let mut nodes: Vec<Node> = (0..count).map(|index| node(&mut rng, index, count)).collect();
        if !faults {
            nodes.iter_mut().for_each(|it| it.fails = false);
        }
        nodes[0].from_start = true;
        // Two writers in one step are a conflict, which `compile` reports if both always run.
        let writer = rng.usize(0..count);
        for (index, node) in nodes.iter_mut().enumerate() {
            node.writes.retain(|it| *it != "one" || index == writer);
        }
        let joins = (0..rng.usize(0..=2)).map(|_| {
            let to = rng.usize(2..count);
            let mut from: Vec<_> = (0..to).collect();
            rng.shuffle(&mut from);
            from.truncate(2);
            (from, to)
        });
        let joins = joins.collect();
        Self { nodes, joins, limit: if faults { rng.u32(3..12) } else { 100 } }
    }
}

fn subset(rng: &mut Rng, most: usize) -> Vec<&'static str> {
    let mut fields = FIELDS.to_vec();
    rng.shuffle(&mut fields);
    fields.truncate(rng.usize(0..=most));
    fields
}

fn node(rng: &mut Rng, index: usize, count: usize) -> Node {
    let forward = |rng: &mut Rng, most: usize| -> Vec<usize> {
        let targets = (0..rng.usize(0..=most)).map(|_| rng.usize(index + 1..=count));
        targets.filter(|it| *it < count).collect()
    };
    Node {
        reads: (rng.u8(0..8) > 0).then(|| subset(rng, 2)),
        writes: subset(rng, 2),
        declares_writes: rng.u8(0..8) > 0,
        edges: forward(rng, 2),
        gotos: if rng.u8(0..4) == 0 { forward(rng, 2) } else { Vec::new() },
        sends: (rng.u8(0..6) == 0).then(|| rng.usize(index..count)).filter(|it| *it > index),
        from_start: rng.u8(0..3) == 0,
        interrupts: rng.u8(0..8) == 0,
        defer: rng.u8(0..10) == 0,
        fails: rng.u8(0..30) == 0,
        effect: rng.u8(0..4) == 0,
    }
}

/// Everything that can be observed of the runs of a thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Seen {
    outcomes: Vec<String>,
    /// Events that have a defined order.
    events: Vec<String>,
    history: Vec<String>,
}

/// The executions of nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log(Arc<Mutex<LogData>>);

#[derive(Debug, Default)]
struct LogData {
    started: Vec<TaskId>,
    /// Tasks whose external call was recorded.
    recorded_calls: BTreeSet<TaskId>,
    /// Number of calls that were made again although they were recorded.
    repeated_calls: usize,
    /// Maximum number of steps between two tasks that run at the same time.
    running: BTreeMap<i64, usize>,
    spread: i64,
}

impl Log {
    fn with<T>(&self, use_data: impl FnOnce(&mut LogData) -> T) -> T {
        use_data(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn enter(&self, cx: &Context) {
        self.with(|it| {
            it.started.push(cx.task_id());
            *it.running.entry(cx.step()).or_default() += 1;
            let steps = it.running.keys().next().zip(it.running.keys().next_back());
            it.spread = it.spread.max(steps.map_or(0, |(first, last)| last - first));
        });
    }

    fn leave(&self, cx: &Context) {
        self.with(|it| {
            let running = it.running.entry(cx.step()).or_default();
            *running = running.saturating_sub(1);
            it.running.retain(|_, it| *it > 0);
        });
    }

    /// Returns the largest number of steps between two tasks that ran at the same time.
    pub(crate) fn spread(&self) -> i64 {
        self.with(|it| it.spread)
    }

    fn started(&self) -> Vec<TaskId> {
        self.with(|it| std::mem::take(&mut it.started))
    }

    /// Returns the number of external calls that were made again although they were recorded.
    fn repeated_calls(&self) -> usize {
        self.with(|it| it.repeated_calls)
    }
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn schema() -> JsonStateSchema {
    let kinds = [
        JsonFieldKind::Append,
        JsonFieldKind::Sum,
        JsonFieldKind::Merge,
        JsonFieldKind::Last,
        JsonFieldKind::Concat,
    ];
    JsonStateSchema::new(FIELDS.into_iter().zip(kinds)).expect("field names are unique")
}

fn written(field: &str, hash: u64) -> Value {
    match field {
        "list" => json!([hash % 1000]),
        "sum" => json!(hash % 100),
        "map" => json!({ (hash % 3).to_string(): hash % 1000 }),
        "text" => json!(format!("{} ", hash % 1000)),
        _ => json!(hash % 1000),
    }
}

/// A graph with its latencies and the log of its nodes.
pub(crate) struct Setup<'a> {
    pub(crate) spec: &'a EagerSpec,
    pub(crate) eager: bool,
    /// Determines the latencies. 0 stands for no latency.
    pub(crate) latencies: u64,
    pub(crate) durability: Durability,
}

impl Setup<'_> {
    fn build(&self, log: &Log, saver: Arc<dyn Checkpointer>) -> CompiledGraph<JsonState> {
        let mut graph = schema().graph();
        for (index, node) in self.spec.nodes.iter().enumerate() {
            graph = self.add_node(graph, index, node, log);
        }
        for (from, to) in &self.spec.joins {
            graph = graph.join(from.iter().map(|it| NAMES[*it]).collect::<Vec<_>>(), NAMES[*to]);
        }
        let graph = graph.shared_checkpointer(saver);
        let graph = if self.eager { graph.eager() } else { graph };
        graph.compile().expect("the graph is valid")
    }

    fn add_node(
        &self,
        mut graph: StateGraph<JsonState>,
        index: usize,
        node: &Node,
        log: &Log,
    ) -> StateGraph<JsonState> {
        let (spec, log, seed) = (Arc::new(node.clone()), log.clone(), self.latencies);
        let body = move |input: JsonInput, cx: Context| {
            let (spec, log) = (spec.clone(), log.clone());
            async move {
                log.enter(&cx);
                let result = run_node(&spec, &log, seed, index, &input, &cx).await;
                log.leave(&cx);
                result
            }
        };
        let targets = node.gotos.iter().chain(&node.sends).map(|it| NAMES[*it]);
        let json = json_node(NAMES[index], body).destinations(targets);
        let json = match &node.reads {
            Some(reads) => json.reads(reads.iter().copied()),
            None => json,
        };
        graph = match (node.declares_writes, node.defer) {
            (true, true) => graph.node(json.writes(node.writes.iter().copied()).defer()),
            (true, false) => graph.node(json.writes(node.writes.iter().copied())),
            (false, true) => graph.node(json.defer()),
            (false, false) => graph.node(json),
        };
        for to in &node.edges {
            graph = graph.edge(NAMES[index], NAMES[*to]);
        }
        if node.from_start { graph.edge(START, NAMES[index]) } else { graph }
    }

    /// Runs the graph on a new thread until it is complete. Answers all interrupts.
    pub(crate) async fn drive(&self, log: &Log, saver: Arc<dyn Checkpointer>) -> Seen {
        let thread = self.build(log, saver).thread("t", ());
        let mut seen = Seen::default();
        let mut input = input();
        for _ in 0..MAX_RUNS {
            let result = self.run(&thread, input, &mut seen.events).await;
            seen.outcomes.push(describe(&result));
            let Ok(RunOutcome::Interrupted { interrupts, .. }) = result else { break };
            input = Input::resume_by_id(interrupts.into_iter().map(|it| (it.id, it.value)));
        }
        seen.history = history(&thread).await;
        seen
    }

    async fn run(
        &self,
        thread: &Thread<JsonState>,
        input: Input<JsonState>,
        events: &mut Vec<String>,
    ) -> Result<RunOutcome<JsonState>, RunError> {
        let modes = [StreamMode::Values, StreamMode::Tasks];
        let options = RunOptions::new().durability(self.durability).step_limit(self.spec.limit);
        let mut run = thread.clone().with_options(options.stream_modes(modes)).stream(input);
        while let Some(event) = run.next().await {
            let node = event.node.as_deref().unwrap_or_default();
            match event.kind {
                EventKind::Values(values) => {
                    events.push(format!("{} values {}", event.step, values.to_json()));
                }
                EventKind::TaskStarted { input, .. } => {
                    events.push(format!("{} {node} {input}", event.step));
                }
                _ => {}
            }
        }
        run.finish().await
    }

    /// Runs the graph with a saver that fails from the given write on, and then again with a working one. Returns `None`
    /// if the graph needs fewer writes.
    pub(crate) async fn drive_with_crash(&self, write: usize) -> Option<Seen> {
        let log = Log::default();
        let memory: Arc<dyn Checkpointer> = Arc::new(MemorySaver::new());
        let hook = FailingHook { writes: AtomicUsize::new(0), first_failure: write };
        let failing = Arc::new(HookedSaver::new(memory.clone(), hook));
        let thread = self.build(&log, failing.clone()).thread("t", ());
        let mut next = input();
        let mut crashed = false;
        for _ in 0..MAX_RUNS {
            match self.run(&thread, next, &mut Vec::new()).await {
                Ok(RunOutcome::Interrupted { interrupts, .. }) => {
                    next = Input::resume_by_id(interrupts.into_iter().map(|it| (it.id, it.value)));
                }
                Err(RunError::Checkpoint(_)) => {
                    crashed = true;
                    break;
                }
                _ => break,
            }
        }
        if !crashed {
            return None;
        }
        let stored = memory.get(&Lookup::head("t", "")).await.expect("memory is readable");
        let records = stored.map(|it| it.records).unwrap_or_default();
        let done: BTreeSet<_> = records
            .iter()
            .filter(|it| matches!(it.event, TaskEvent::Done { .. }))
            .map(|it| it.task)
            .collect();
        log.started();
        let thread = self.build(&log, memory).thread("t", ());
        let mut seen = Seen::default();
        for _ in 0..MAX_RUNS {
            let state = thread.state().await.expect("the thread is readable");
            let next = match &state {
                None => input(),
                Some(state) => {
                    let pending = state.interrupts().into_iter();
                    let answers: Vec<_> =
                        pending.map(|it| (it.id.clone(), it.value.clone())).collect();
                    match answers.is_empty() {
                        true => Input::proceed(),
                        false => Input::resume_by_id(answers),
                    }
                }
            };
            let result = self.run(&thread, next, &mut Vec::new()).await;
            seen.outcomes = vec![describe(&result)];
            if !matches!(result, Ok(RunOutcome::Interrupted { .. })) {
                break;
            }
        }
        let repeated: Vec<_> = log.started().into_iter().filter(|it| done.contains(it)).collect();
        assert!(repeated.is_empty(), "recorded tasks run again: {repeated:?}");
        assert_eq!(log.repeated_calls(), 0, "recorded calls are made again");
        seen.history = history(&thread).await;
        Some(seen)
    }
}

impl Seen {
    /// Returns the last outcome and the state after each step, without the numbers of runs and retried tasks.
    pub(crate) fn result(&self) -> (Option<&String>, Vec<String>) {
        let states =
            self.history.iter().map(|it| it.split(" tasks ").next().unwrap_or(it).to_owned());
        (self.outcomes.last(), states.collect())
    }
}

fn input() -> Input<JsonState> {
    let input = json!({"list": [], "sum": 1, "map": {}, "one": 1, "text": ""});
    schema().input(input).expect("the input is an object")
}

async fn run_node(
    spec: &Node,
    log: &Log,
    seed: u64,
    index: usize,
    input: &JsonInput,
    cx: &Context,
) -> Result<JsonReturn, NodeError> {
    let hashed = hash((index, cx.step(), input.to_value().to_string()));
    let latency = hash((seed, index, cx.step()));
    let yields = if seed == 0 { 0 } else { [1, 3, 7, 40, 90][(latency % 5) as usize] };
    for _ in 0..yields {
        tokio::task::yield_now().await;
    }
    if spec.effect {
        let id = cx.task_id();
        let call = cx.task("call", &index, async {
            log.with(|it| it.repeated_calls += usize::from(it.recorded_calls.contains(&id)));
            Ok::<u64, NodeError>(hashed)
        });
        let _: u64 = call.await?;
        log.with(|it| it.recorded_calls.insert(id));
    }
    let mut hashed = hashed;
    if spec.interrupts {
        let answer: Value = cx.interrupt(json!(hashed % 1000))?;
        hashed = hash((hashed, answer.to_string()));
    }
    if spec.fails {
        return Err(NodeError::terminal("planned failure"));
    }
    let writes = spec.writes.iter().map(|it| ((*it).to_owned(), written(it, hashed)));
    let update = schema().update(Value::Object(writes.collect())).map_err(NodeError::terminal)?;
    let mut gotos = Vec::new();
    if hashed % 2 == 0 {
        gotos.extend(spec.gotos.iter().map(|it| Goto::node(NAMES[*it])));
        gotos.extend(spec.sends.map(|it| Goto::send(NAMES[it], json!({ "sum": hashed % 100 }))));
    }
    Ok(JsonCommand::new(update, gotos).into())
}

fn describe(result: &Result<RunOutcome<JsonState>, RunError>) -> String {
    match result {
        Ok(RunOutcome::Done(state)) => format!("done {}", state.to_full_value()),
        Ok(RunOutcome::Interrupted { interrupts, state }) => {
            let values: Vec<_> = interrupts.iter().map(|it| it.value.to_string()).collect();
            format!("interrupted {values:?} {}", state.to_full_value())
        }
        Ok(_) => "stopped".to_owned(),
        Err(error) => format!("error {error}"),
    }
}

/// Returns one line per checkpoint: everything except ids and times.
async fn history(thread: &Thread<JsonState>) -> Vec<String> {
    let history = thread.history(None).await.expect("the history is readable");
    let line = |it: &graph_core::ThreadState<JsonState>| {
        let task = |it: &graph_core::TaskState| {
            let interrupts: Vec<_> = it.interrupts.iter().map(|it| &it.value).collect();
            format!("{} {:?} {:?} {interrupts:?}", it.node, it.result, it.error)
        };
        let tasks: Vec<_> = it.tasks.iter().map(task).collect();
        let values = it.values.to_full_value();
        format!("{} {:?} {values} {:?} tasks {tasks:?}", it.step, it.source, it.next)
    };
    history.iter().rev().map(line).collect()
}

/// Fails from a given write on.
#[derive(Debug)]
struct FailingHook {
    writes: AtomicUsize,
    first_failure: usize,
}

#[async_trait]
impl WriteHook for FailingHook {
    async fn write(
        &self,
        inner: &dyn Checkpointer,
        writes: Vec<CheckpointWrite>,
    ) -> Result<(), CheckpointError> {
        for write in writes {
            if self.writes.fetch_add(1, Ordering::Relaxed) >= self.first_failure {
                let error: Box<dyn std::error::Error + Send + Sync> = "the process died".into();
                return Err(CheckpointError::Storage(Arc::from(error)));
            }
            inner.write(vec![write]).await?;
        }
        Ok(())
    }
}
