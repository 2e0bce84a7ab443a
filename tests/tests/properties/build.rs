//! Builds graphs from their descriptions, with a harness that controls and records their nodes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use graph_core::{
    Checkpointer, CompiledGraph, Context, Goto, JsonState, JsonStateSchema, NodeError, NodeExt,
    RetryPolicy, RunControl, START, StateGraph,
    json::{JsonBranch, JsonCommand, JsonInput, JsonReturn, JsonUpdate, json_node, json_subgraph},
};
use serde_json::{Value, json};

use crate::spec::{Branch, FIELDS, FUEL, INNER_FIELDS, NAMES, Node, Spec, Target, kind};

/// Controls and records the nodes of a graph. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Harness {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Number of times that each node yields before it finishes. This determines the order of completion.
    delays: Vec<u8>,
    // A std mutex suffices, because it is never held across an await.
    state: Mutex<HarnessState>,
}

#[derive(Debug, Default)]
struct HarnessState {
    failures: BTreeMap<String, u32>,
    finished: Vec<FinishedTask>,
    fail_once: Option<String>,
    drain: Option<(i64, RunControl)>,
}

/// A completed call to a node's body.
#[derive(Clone, Debug)]
pub(crate) struct FinishedTask {
    pub(crate) task: String,
    /// Graph, step, node and input, formatted as one line.
    pub(crate) line: String,
}

impl Harness {
    pub(crate) fn new(delays: Vec<u8>) -> Self {
        Self { shared: Arc::new(Shared { delays, state: Mutex::default() }) }
    }

    /// Makes the next call to the node fail. Later calls are not affected.
    pub(crate) fn set_fail_once(&self, node: &str) {
        self.state().fail_once = Some(node.to_owned());
    }

    /// Drains the run when the root graph reaches this step.
    pub(crate) fn drain_at(&self, step: i64, control: RunControl) {
        self.state().drain = Some((step, control));
    }

    /// Returns one line per finished task, sorted.
    pub(crate) fn finished_tasks(&self) -> Vec<String> {
        let state = self.state();
        let tasks: BTreeMap<_, _> = state.finished.iter().map(|it| (&it.task, &it.line)).collect();
        let mut finished_tasks: Vec<_> = tasks.into_values().cloned().collect();
        finished_tasks.sort_unstable();
        finished_tasks
    }

    /// Returns the tasks that finished more than once.
    pub(crate) fn repeated(&self) -> Vec<String> {
        let mut seen = BTreeSet::new();
        let state = self.state();
        let again = state.finished.iter().filter(|it| !seen.insert(&it.task));
        again.map(|it| it.line.clone()).collect()
    }

    fn state(&self) -> MutexGuard<'_, HarnessState> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn delay(&self, index: usize, payload: i64) {
        let delays = &self.shared.delays;
        if delays.is_empty() {
            return;
        }
        let place = index + usize::try_from(payload).unwrap_or(0);
        for _ in 0..delays[place % delays.len()] {
            tokio::task::yield_now().await;
        }
    }

    fn maybe_fail(&self, cx: &Context, fails: u32) -> Result<(), NodeError> {
        let mut state = self.state();
        if state.fail_once.take_if(|it| it == cx.node()).is_some() {
            return Err(NodeError::terminal("injected"));
        }
        let failed = state.failures.entry(cx.idempotency_key()).or_default();
        if *failed < fails {
            *failed += 1;
            return Err(NodeError::from(format!("failure {failed}")));
        }
        if cx.namespace().is_empty()
            && let Some((_, control)) = state.drain.take_if(|it| it.0 <= cx.step())
        {
            control.drain();
        }
        Ok(())
    }

    fn finished(&self, cx: &Context, name: &str, input: &Value) {
        let levels = cx.namespace().split('|').map(|it| it.split(':').next().unwrap_or(it));
        let path = levels.collect::<Vec<_>>().join("/");
        let line = format!("{path}@{:03} {name} {input}", cx.step());
        self.state().finished.push(FinishedTask { task: cx.idempotency_key(), line });
    }
}

/// Returns the schema of a root graph.
pub(crate) fn schema(spec: &Spec) -> JsonStateSchema {
    let left = spec.sees_remaining_steps.then_some("left");
    fields(FIELDS.into_iter().chain(left))
}

fn fields(names: impl Iterator<Item = &'static str>) -> JsonStateSchema {
    JsonStateSchema::new(names.map(|it| (it, kind(it)))).expect("field names are unique")
}

/// Builds the graph that a spec describes.
pub(crate) fn build(
    spec: &Spec,
    harness: &Harness,
    saver: Option<Arc<dyn Checkpointer>>,
) -> CompiledGraph<JsonState> {
    let mut graph = plan(spec, &schema(spec), harness);
    if let Some(saver) = saver {
        graph = graph.shared_checkpointer(saver);
    }
    graph.compile().expect("a generated graph is valid")
}

fn plan(spec: &Spec, schema: &JsonStateSchema, harness: &Harness) -> StateGraph<JsonState> {
    let mut graph = schema.graph();
    for (index, node) in spec.nodes.iter().enumerate() {
        graph = match &node.inner {
            Some((persistence, inner)) => {
                let inner = plan(inner, &fields(INNER_FIELDS.into_iter()), harness).compile();
                let inner = inner.expect("a generated graph is valid");
                let node_of = json_subgraph(NAMES[index], &inner, *persistence);
                match node.defer {
                    true => graph.node(node_of.defer()),
                    false => graph.node(node_of),
                }
            }
            None => add(graph, index, node, schema, harness),
        };
    }
    for (from, to) in &spec.edges {
        graph = match from {
            None => graph.edge(START, NAMES[*to]),
            Some(from) => graph.edge(NAMES[*from], NAMES[*to]),
        };
    }
    for (from, to) in &spec.joins {
        graph = graph.join(from.iter().map(|it| NAMES[*it]).collect::<Vec<_>>(), NAMES[*to]);
    }
    for (index, branch) in spec.branches.iter().enumerate() {
        let rules = branch.clone();
        let route = JsonBranch::new(format!("branch {index}"), move |input| Ok(rules.gotos(input)));
        graph = match branch.from {
            None => graph.json_branch(START, route),
            Some(from) => graph.json_branch(NAMES[from], route),
        };
    }
    graph
}

fn add(
    graph: StateGraph<JsonState>,
    index: usize,
    spec: &Node,
    schema: &JsonStateSchema,
    harness: &Harness,
) -> StateGraph<JsonState> {
    let body = Arc::new(Body {
        index,
        spec: spec.clone(),
        schema: schema.clone(),
        harness: harness.clone(),
    });
    let handler = body.clone();
    let node = json_node(NAMES[index], move |input, cx| body.clone().run(input, cx));
    // Converts the node to the type that the methods below return. The metadata itself has no effect.
    let mut node = node.with_metadata("index", index);
    if spec.defer {
        node = node.defer();
    }
    if spec.attempts > 1 {
        let retry = RetryPolicy::max_attempts(spec.attempts);
        node = node.retry(retry.backoff(Duration::ZERO, 1.0).without_jitter());
    }
    if !spec.handler {
        return graph.node(node);
    }
    let name = format!("{}!", NAMES[index]);
    graph.node(node.on_error(json_node(name, move |input, cx| handler.clone().handle(input, cx))))
}

/// The body of a node.
struct Body {
    index: usize,
    spec: Node,
    schema: JsonStateSchema,
    harness: Harness,
}

fn number(input: &JsonInput, field: &str) -> i64 {
    input.get(field).and_then(Value::as_i64).unwrap_or(0)
}

impl Body {
    async fn run(self: Arc<Self>, input: JsonInput, cx: Context) -> Result<JsonReturn, NodeError> {
        let (ticks, payload) = (number(&input, "ticks"), number(&input, "k"));
        self.harness.maybe_fail(&cx, self.spec.fails)?;
        let mut answers = Vec::new();
        for nth in 0..self.spec.interrupts {
            let question = json!({"node": cx.node(), "nth": nth, "ticks": ticks, "k": payload});
            answers.push(cx.interrupt::<Value>(question)?);
        }
        self.harness.delay(self.index, payload).await;
        let writes = self.written(ticks, payload, answers);
        self.harness.finished(&cx, cx.node(), &input.to_value());
        let first = if self.spec.split { writes.len() / 2 } else { writes.len() };
        let base = self.update(json!({"ticks": 1, "note": payload}))?;
        let update = self.filled(base, &writes[..first]);
        let gotos = self.gotos(&input, ticks);
        if self.spec.split {
            let more = self.filled(JsonUpdate::default(), &writes[first..]);
            let commands =
                vec![JsonCommand::new(update, Vec::new()), JsonCommand::new(more, gotos)];
            return Ok(JsonReturn::Commands(commands));
        }
        Ok(if gotos.is_empty() { update.into() } else { JsonCommand::new(update, gotos).into() })
    }

    fn written(
        &self,
        ticks: i64,
        payload: i64,
        answers: Vec<Value>,
    ) -> Vec<(&'static str, Value, bool)> {
        let value = |(field, overwrite): &(&'static str, bool)| {
            (*field, self.value(field, ticks, payload), *overwrite)
        };
        let mut writes: Vec<_> = self.spec.writes.iter().map(value).collect();
        if !answers.is_empty() {
            writes.push(("kept", Value::Array(answers), false));
        }
        if self.spec.bad {
            writes.push(("sum", json!("no number"), false));
        }
        writes
    }

    fn filled(&self, update: JsonUpdate, writes: &[(&'static str, Value, bool)]) -> JsonUpdate {
        writes.iter().fold(update, |update, (field, value, overwrite)| {
            let update = update.write(&self.schema, field, value.clone(), *overwrite);
            update.expect("the value is not nested too deeply")
        })
    }

    async fn handle(
        self: Arc<Self>,
        input: JsonInput,
        cx: Context,
    ) -> Result<JsonUpdate, NodeError> {
        self.harness.delay(self.index, 0).await;
        let error = cx.failure().map(|it| it.error.clone());
        self.harness.finished(&cx, "handler", &input.to_value());
        self.update(json!({"ticks": 1, "log": [error]}))
    }

    fn update(&self, value: Value) -> Result<JsonUpdate, NodeError> {
        self.schema.update(value).map_err(NodeError::terminal)
    }

    /// Returns the value written to a field.
    fn value(&self, field: &str, ticks: i64, payload: i64) -> Value {
        let name = NAMES[self.index];
        let mark = format!("{name}{ticks}.{payload}");
        let index = i64::try_from(self.index).unwrap_or(0);
        match field {
            "log" => json!([mark]),
            "sum" => json!(index + payload),
            "max" => json!((ticks * 7 + index * 3 + payload) % 11),
            "min" => json!(-((ticks * 5 + index * 2 + payload) % 13)),
            "map" => json!({format!("{}", (ticks + payload) % 3): mark}),
            "rows" => json!([{"id": (ticks + payload) % 3, "by": name}, {"id": index, "by": mark}]),
            "topic" if ticks % 2 == 0 => json!([]),
            _ => json!(mark),
        }
    }

    fn gotos(&self, input: &JsonInput, ticks: i64) -> Vec<Goto> {
        let open = |to: usize| to > self.index || ticks < FUEL;
        let gotos = self.spec.gotos.iter().filter(|it| it.0.holds(ticks) && open(it.1));
        let mut gotos: Vec<_> = gotos.map(|it| Goto::node(NAMES[it.1])).collect();
        let hops = input.get("hops").and_then(Value::as_i64);
        if let Some((condition, to, count)) = self.spec.sends
            && condition.holds(ticks)
            && ticks < FUEL
            && hops.is_none_or(|it| it < 2)
        {
            // A task that received a payload sends only one, because otherwise the number of payloads would grow with
            // every step.
            let count = if hops.is_some() { 1 } else { count };
            gotos.extend(sends(to, count, ticks, hops.unwrap_or(-1) + 1));
        }
        gotos
    }
}

fn sends(to: usize, count: usize, ticks: i64, hops: i64) -> impl Iterator<Item = Goto> {
    (0..count)
        .map(move |k| Goto::send(NAMES[to], json!({"ticks": ticks + 1, "k": k, "hops": hops})))
}

impl Branch {
    fn gotos(&self, input: &JsonInput) -> Vec<Goto> {
        let ticks = number(input, "ticks");
        let chosen = self.condition.holds(ticks + number(input, "note"));
        let targets = if chosen { &self.yes } else { &self.no };
        let mut gotos = Vec::new();
        for target in targets {
            match *target {
                Target::Node(to) if self.from.is_none_or(|it| to > it) || ticks < FUEL => {
                    gotos.push(Goto::node(NAMES[to]));
                }
                Target::Send(to, count) if ticks < FUEL => gotos.extend(sends(to, count, ticks, 0)),
                Target::Node(_) | Target::Send(..) => {}
                Target::End => gotos.push(Goto::end()),
            }
        }
        gotos
    }
}
