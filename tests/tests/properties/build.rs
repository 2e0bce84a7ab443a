//! From a graph as data to one that runs, and the board its nodes write to.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use graph_core::{
    Checkpointer, Command, CompiledGraph, Configure, Context, Control, Goto, JsonSchema, JsonState,
    NodeError, Retry, START, StateGraph,
    json::{JsonBranch, JsonInput, JsonReturn, JsonUpdate, json_node, json_subgraph},
};
use serde_json::{Value, json};

use crate::spec::{Branch, FIELDS, FUEL, INNER_FIELDS, NAMES, Node, Spec, Target, kind};

type Way = Command<JsonState, Vec<Goto>>;

/// What the nodes of a graph share with the test around them. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Board {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// How often each node gives way before it finishes: what sets the order of completion.
    delays: Vec<u8>,
    // A std mutex: held for a moment, never over an await.
    notes: Mutex<Notes>,
}

#[derive(Debug, Default)]
struct Notes {
    failures: BTreeMap<String, u32>,
    done: Vec<Done>,
    broken: Option<String>,
    drain: Option<(i64, Control)>,
}

/// A node's body that came to its end.
#[derive(Clone, Debug)]
pub(crate) struct Done {
    pub(crate) task: String,
    /// The graph, the step, the node and its input in one line.
    pub(crate) line: String,
}

impl Board {
    pub(crate) fn new(delays: Vec<u8>) -> Self {
        Self { shared: Arc::new(Shared { delays, notes: Mutex::default() }) }
    }

    /// Lets the node's next call fail, once.
    pub(crate) fn break_once(&self, node: &str) {
        self.notes().broken = Some(node.to_owned());
    }

    /// Drains the run once its root graph has come to a step.
    pub(crate) fn drain_at(&self, step: i64, control: Control) {
        self.notes().drain = Some((step, control));
    }

    /// What ran to its end: a line for each task, sorted.
    pub(crate) fn lines(&self) -> Vec<String> {
        let notes = self.notes();
        let tasks: BTreeMap<_, _> = notes.done.iter().map(|it| (&it.task, &it.line)).collect();
        let mut lines: Vec<_> = tasks.into_values().cloned().collect();
        lines.sort_unstable();
        lines
    }

    /// Tasks that ran to their end more than once.
    pub(crate) fn repeated(&self) -> Vec<String> {
        let mut seen = BTreeSet::new();
        let notes = self.notes();
        let again = notes.done.iter().filter(|it| !seen.insert(&it.task));
        again.map(|it| it.line.clone()).collect()
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.shared.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn give_way(&self, index: usize, payload: i64) {
        let delays = &self.shared.delays;
        if delays.is_empty() {
            return;
        }
        let place = index + usize::try_from(payload).unwrap_or(0);
        for _ in 0..delays[place % delays.len()] {
            tokio::task::yield_now().await;
        }
    }

    fn trip(&self, cx: &Context, fails: u32) -> Result<(), NodeError> {
        let mut notes = self.notes();
        if notes.broken.take_if(|it| it == cx.node()).is_some() {
            return Err(NodeError::terminal("injected"));
        }
        let failed = notes.failures.entry(cx.idempotency_key()).or_default();
        if *failed < fails {
            *failed += 1;
            return Err(NodeError::from(format!("failure {failed}")));
        }
        if cx.namespace().is_empty()
            && let Some((_, control)) = notes.drain.take_if(|it| it.0 <= cx.step())
        {
            control.drain();
        }
        Ok(())
    }

    fn finished(&self, cx: &Context, name: &str, input: &Value) {
        let levels = cx.namespace().split('|').map(|it| it.split(':').next().unwrap_or(it));
        let path = levels.collect::<Vec<_>>().join("/");
        let line = format!("{path}@{:03} {name} {input}", cx.step());
        self.notes().done.push(Done { task: cx.idempotency_key(), line });
    }
}

/// The schema of a root graph.
pub(crate) fn schema(spec: &Spec) -> JsonSchema {
    let left = spec.sees_left.then_some("left");
    fields(FIELDS.into_iter().chain(left))
}

fn fields(names: impl Iterator<Item = &'static str>) -> JsonSchema {
    JsonSchema::new(names.map(|it| (it, kind(it)))).expect("no field stands twice")
}

/// The graph that a spec describes.
pub(crate) fn build(
    spec: &Spec,
    board: &Board,
    saver: Option<Arc<dyn Checkpointer>>,
) -> CompiledGraph<JsonState> {
    let mut graph = plan(spec, &schema(spec), board);
    if let Some(saver) = saver {
        graph = graph.shared_checkpointer(saver);
    }
    graph.compile().expect("a generated graph is a good one")
}

fn plan(spec: &Spec, schema: &JsonSchema, board: &Board) -> StateGraph<JsonState> {
    let mut graph = schema.graph();
    for (index, node) in spec.nodes.iter().enumerate() {
        graph = match &node.inner {
            Some((keep, inner)) => {
                let inner = plan(inner, &fields(INNER_FIELDS.into_iter()), board).compile();
                let inner = inner.expect("a generated graph is a good one");
                let node_of = json_subgraph(NAMES[index], &inner, (*keep).into());
                match node.defer {
                    true => graph.node(node_of.defer()),
                    false => graph.node(node_of),
                }
            }
            None => add(graph, index, node, schema, board),
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
        let route = JsonBranch::new(format!("branch {index}"), move |input| Ok(rules.ways(input)));
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
    schema: &JsonSchema,
    board: &Board,
) -> StateGraph<JsonState> {
    let body =
        Arc::new(Body { index, spec: spec.clone(), schema: schema.clone(), board: board.clone() });
    let handler = body.clone();
    let node = json_node(NAMES[index], move |input, cx| body.clone().run(input, cx));
    // Says nothing, but gives all nodes one type.
    let mut node = node.metadata("index", index);
    if spec.defer {
        node = node.defer();
    }
    if spec.attempts > 1 {
        let retry = Retry::attempts(spec.attempts);
        node = node.retry(retry.backoff(Duration::ZERO, 1.0).without_jitter());
    }
    if !spec.handler {
        return graph.node(node);
    }
    let name = format!("{}!", NAMES[index]);
    graph.node(node.on_error(json_node(name, move |input, cx| handler.clone().handle(input, cx))))
}

/// A node's function.
struct Body {
    index: usize,
    spec: Node,
    schema: JsonSchema,
    board: Board,
}

fn number(input: &JsonInput, field: &str) -> i64 {
    input.get(field).and_then(Value::as_i64).unwrap_or(0)
}

impl Body {
    async fn run(self: Arc<Self>, input: JsonInput, cx: Context) -> Result<JsonReturn, NodeError> {
        let (ticks, payload) = (number(&input, "ticks"), number(&input, "k"));
        self.board.trip(&cx, self.spec.fails)?;
        let mut answers = Vec::new();
        for nth in 0..self.spec.asks {
            let question = json!({"node": cx.node(), "nth": nth, "ticks": ticks, "k": payload});
            answers.push(cx.interrupt::<Value>(question)?);
        }
        self.board.give_way(self.index, payload).await;
        let writes = self.written(ticks, payload, answers);
        self.board.finished(&cx, cx.node(), &input.to_value());
        let first = if self.spec.split { writes.len() / 2 } else { writes.len() };
        let base = self.update(json!({"ticks": 1, "note": payload}))?;
        let update = self.filled(base, &writes[..first]);
        let ways = self.ways(&input, ticks);
        if self.spec.split {
            let more = self.filled(JsonUpdate::default(), &writes[first..]);
            let commands = vec![Way::new(update, Vec::new()), Way::new(more, ways)];
            return Ok(JsonReturn::Commands(commands));
        }
        Ok(if ways.is_empty() { update.into() } else { Way::new(update, ways).into() })
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
            update.expect("no value is deep")
        })
    }

    async fn handle(
        self: Arc<Self>,
        input: JsonInput,
        cx: Context,
    ) -> Result<JsonUpdate, NodeError> {
        self.board.give_way(self.index, 0).await;
        let error = cx.failure().map(|it| it.error.clone());
        self.board.finished(&cx, "handler", &input.to_value());
        self.update(json!({"ticks": 1, "log": [error]}))
    }

    fn update(&self, value: Value) -> Result<JsonUpdate, NodeError> {
        self.schema.update(value).map_err(NodeError::terminal)
    }

    /// What it writes to a field.
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

    fn ways(&self, input: &JsonInput, ticks: i64) -> Vec<Goto> {
        let open = |to: usize| to > self.index || ticks < FUEL;
        let gotos = self.spec.gotos.iter().filter(|it| it.0.holds(ticks) && open(it.1));
        let mut ways: Vec<_> = gotos.map(|it| Goto::node(NAMES[it.1])).collect();
        let hops = input.get("hops").and_then(Value::as_i64);
        if let Some((when, to, count)) = self.spec.sends
            && when.holds(ticks)
            && ticks < FUEL
            && hops.is_none_or(|it| it < 2)
        {
            // What was sent sends on once, or payloads would double with every step.
            let count = if hops.is_some() { 1 } else { count };
            ways.extend(sends(to, count, ticks, hops.unwrap_or(-1) + 1));
        }
        ways
    }
}

fn sends(to: usize, count: usize, ticks: i64, hops: i64) -> impl Iterator<Item = Goto> {
    (0..count)
        .map(move |k| Goto::send(NAMES[to], json!({"ticks": ticks + 1, "k": k, "hops": hops})))
}

impl Branch {
    fn ways(&self, input: &JsonInput) -> Vec<Goto> {
        let ticks = number(input, "ticks");
        let chosen = self.when.holds(ticks + number(input, "note"));
        let targets = if chosen { &self.yes } else { &self.no };
        let mut ways = Vec::new();
        for target in targets {
            match *target {
                Target::Node(to) if self.from.is_none_or(|it| to > it) || ticks < FUEL => {
                    ways.push(Goto::node(NAMES[to]));
                }
                Target::Send(to, count) if ticks < FUEL => ways.extend(sends(to, count, ticks, 0)),
                Target::Node(_) | Target::Send(..) => {}
                Target::End => ways.push(Goto::end()),
            }
        }
        ways
    }
}
