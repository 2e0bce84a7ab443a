//! Builds a random graph and executes its nodes.
//!
//! A node writes a hash of everything that it sees, so a task that sees a wrong value changes the result. The latency
//! of a task is the number of times that it yields, which depends on a seed.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use graph_core::{
    Context, Goto, Input, JsonFieldKind, JsonState, JsonStateSchema, NodeError, NodeExt, START,
    StateGraph,
    json::{JsonBranch, JsonCommand, JsonInput, JsonReturn, json_node},
};
use serde_json::{Value, json};

use crate::{
    eager_log::Log,
    eager_spec::{EagerSpec, FIELDS, NAMES, Node},
};

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
        JsonFieldKind::Any,
        JsonFieldKind::Untracked,
    ];
    JsonStateSchema::new(FIELDS.into_iter().zip(kinds)).expect("field names are unique")
}

/// Returns the input of each graph.
pub(crate) fn input() -> Input<JsonState> {
    let input = json!({"list": [], "sum": 1, "map": {}, "one": 1, "text": ""});
    schema().input(input).expect("the input is an object")
}

/// Builds a graph. The seed determines the latencies; 0 means no latency.
pub(crate) fn graph(spec: &EagerSpec, log: &Log, seed: u64) -> StateGraph<JsonState> {
    let mut graph = schema().graph();
    for (index, node) in spec.nodes.iter().enumerate() {
        graph = add_node(graph, index, node, log, seed);
    }
    for (from, to) in &spec.joins {
        graph = graph.join(from.iter().map(|it| NAMES[*it]).collect::<Vec<_>>(), NAMES[*to]);
    }
    graph
}

fn add_node(
    mut graph: StateGraph<JsonState>,
    index: usize,
    node: &Node,
    log: &Log,
    seed: u64,
) -> StateGraph<JsonState> {
    let (spec, log) = (Arc::new(node.clone()), log.clone());
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
    let mut json = json_node(NAMES[index], body).destinations(targets);
    if let Some(reads) = &node.reads {
        json = json.reads(reads.iter().copied());
    }
    // A random graph may contain nodes that no path leads to.
    let mut json = json.with_metadata("index", index).command_only();
    // Without this option, the branches of the node could read all fields.
    if let Some(reads) = node.reads.as_ref().filter(|_| has_branch(node)) {
        json = json.reads(reads.iter().copied());
    }
    if node.declares_writes {
        json = json.writes(node.writes.iter().copied());
    }
    if node.defer {
        json = json.defer();
    }
    graph = graph.node(json);
    if has_branch(node) {
        graph = graph.json_branch(NAMES[index], branch(index, node));
    }
    for to in &node.edges {
        graph = graph.edge(NAMES[index], NAMES[*to]);
    }
    if node.from_start { graph.edge(START, NAMES[index]) } else { graph }
}

fn has_branch(node: &Node) -> bool {
    !node.branch.is_empty() || !node.branch_sends.is_empty()
}

/// Returns the branch of a node, which chooses one of its targets, or none of them.
fn branch(index: usize, node: &Node) -> JsonBranch {
    let targets = node.branch.iter().chain(&node.branch_sends).map(|it| NAMES[*it]);
    let targets: Vec<_> = targets.collect();
    let (nodes, sends) = (node.branch.clone(), node.branch_sends.clone());
    let choose = move |input: &JsonInput| {
        let hashed = hash((index, input.to_value().to_string()));
        let chosen = nodes.get(hashed as usize % (nodes.len() + 1));
        let mut gotos: Vec<_> = chosen.map(|it| Goto::node(NAMES[*it])).into_iter().collect();
        if !hashed.is_multiple_of(3) {
            gotos.extend(sends.iter().map(|it| payload(*it, hashed)));
        }
        Ok(gotos)
    };
    JsonBranch::new("branch", choose).destinations(targets)
}

fn payload(to: usize, hashed: u64) -> Goto {
    Goto::send(NAMES[to], json!({ "sum": hashed % 100 }))
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

async fn run_node(
    spec: &Node,
    log: &Log,
    seed: u64,
    index: usize,
    input: &JsonInput,
    cx: &Context,
) -> Result<JsonReturn, NodeError> {
    let mut hashed = hash((index, cx.step(), input.to_value().to_string()));
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
        // One or two payloads for each target.
        for number in 0..=hashed / 2 % 2 {
            gotos.extend(spec.sends.iter().map(|it| payload(*it, hashed + number)));
        }
    }
    Ok(JsonCommand::new(update, gotos).into())
}
