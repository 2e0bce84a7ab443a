//! The workloads on adk-graph. See `peer_support::protocol` for the requests.
//!
//! Its state is a map of JSON values. A node gets a copy of the whole state.

mod jokes;
mod stored;
mod wide;

use std::{io, sync::Arc};

use adk_graph::{
    CompiledGraph, END, ExecutionConfig, MemoryCheckpointer, NodeContext, NodeOutput, START, State,
    StateGraph, StateSchema, subgraph::SubgraphNode,
};
use futures::future::try_join_all;
use peer_support::{
    data,
    protocol::{Job, concurrent, job, serve, unknown},
};
use serde_json::{Value, json};

/// Reason for workloads with one checkpoint at the end of a run.
const NO_EXIT: &str = "no checkpoint only at the end: every step is stored";

fn main() -> io::Result<()> {
    serve("2.3.0", prepare)
}

fn prepare(workload: &str, size: usize) -> Result<Job, String> {
    Ok(match workload {
        "loop" => run(loop_graph(), counter(size), counted),
        "fan-out" => run(fan_out(), state([("parts", json!(size))]), |it| {
            it["sum"].as_f64().unwrap_or_default().to_string()
        }),
        "growing-list" => run(growing_list(), state([("until", json!(size))]), |it| {
            it["lines"].as_array().map_or(0, Vec::len).to_string()
        }),
        "sequential" => run(sequential(size), counter(0), counted),
        "fanout-to-subgraph" => jokes::prepare(size),
        "wide-state" => wide::prepare(size),
        "nested" => run(nested(), counter(size), counted),
        "threads" => threads(size),
        "cpu-branches" => run(cpu_branches(), state([("branches", json!(size))]), |it| {
            let results = it["results"].as_array().into_iter().flatten();
            data::spin_answer(results.filter_map(Value::as_u64))
        }),
        "sqlite-loop" => stored::prepare(size, 1),
        "sqlite-loop-16" => stored::prepare(size, data::STORED_THREADS),
        "react-agent" | "react-agent-checkpoint" | "agent-loop" => {
            return Err("no agent in this crate".to_owned());
        }
        "resume" => return Err("invoke does not continue a finished thread".to_owned()),
        _ if workload.ends_with("-checkpoint") => return Err(NO_EXIT.to_owned()),
        "server" => return Err("no server in this crate".to_owned()),
        _ => return Err(unknown(workload)),
    })
}

/// Runs a graph and describes its final state.
fn run(graph: CompiledGraph, input: State, answer: fn(&State) -> String) -> Job {
    let graph = Arc::new(graph);
    job(move || {
        let (graph, input) = (graph.clone(), input.clone());
        async move {
            let state = graph.invoke(input, config()).await.expect("the run succeeds");
            answer(&state)
        }
    })
}

/// Returns the configuration of a run on a new thread, without a limit on steps.
fn config() -> ExecutionConfig {
    ExecutionConfig::new(&data::new_thread()).with_recursion_limit(usize::MAX)
}

fn state<const N: usize>(fields: [(&str, Value); N]) -> State {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn counter(until: usize) -> State {
    state([("count", json!(0)), ("until", json!(until))])
}

fn number(state: &State, name: &str) -> u64 {
    state.get(name).and_then(Value::as_u64).unwrap_or_default()
}

fn counted(state: &State) -> String {
    number(state, "count").to_string()
}

async fn tick(context: NodeContext) -> adk_graph::Result<NodeOutput> {
    Ok(NodeOutput::new().with_update("count", number(&context.state, "count") + 1))
}

/// Routes to `again` until the counter has reached its end.
fn turn(state: &State) -> String {
    let again = number(state, "count") < number(state, "until");
    if again { "again".to_owned() } else { END.to_owned() }
}

fn loop_graph() -> CompiledGraph {
    StateGraph::with_channels(&["count", "until"])
        .add_node_fn("tick", tick)
        .add_edge(START, "tick")
        .add_conditional_edges("tick", turn, [("again", "tick"), (END, END)])
        .compile()
        .expect("the graph is valid")
}

/// Invokes a node once per value and collects one field of the results. This is how a node sizes a fan-out at run time.
async fn scatter(
    context: &NodeContext,
    (node, input, field): (&str, &str, &str),
    inputs: impl Iterator<Item = Value>,
) -> adk_graph::Result<Vec<Value>> {
    let call = |value: Value| context.run_node(node, json!({input: value}));
    let results = try_join_all(inputs.map(call)).await?;
    Ok(results.into_iter().map(|mut it| it[field].take()).collect())
}

fn fan_out() -> CompiledGraph {
    let schema = StateSchema::builder().channel("parts").channel("part").counter_channel("sum");
    StateGraph::new(schema.build())
        .add_node_fn("scatter", |context| async move {
            let parts = (0..number(&context.state, "parts")).map(Value::from);
            let sums = scatter(&context, ("add", "part", "sum"), parts).await?;
            let sum: u64 = sums.iter().filter_map(Value::as_u64).sum();
            Ok(NodeOutput::new().with_update("sum", sum))
        })
        .add_node_fn("add", |context| async move {
            Ok(NodeOutput::new().with_update("sum", number(&context.state, "part")))
        })
        .add_edge(START, "scatter")
        .add_edge("scatter", END)
        .compile()
        .expect("the graph is valid")
}

fn growing_list() -> CompiledGraph {
    let schema = StateSchema::builder().channel("until").list_channel("lines").build();
    let length = |state: &State| state.get("lines").and_then(Value::as_array).map_or(0, Vec::len);
    let page = move |state: &State| {
        let again = (length(state) as u64) < number(state, "until");
        if again { "again".to_owned() } else { END.to_owned() }
    };
    StateGraph::new(schema)
        .add_node_fn("write", move |context| async move {
            Ok(NodeOutput::new().with_update("lines", json!([length(&context.state)])))
        })
        .add_edge(START, "write")
        .add_conditional_edges("write", page, [("again", "write"), (END, END)])
        .compile()
        .expect("the graph is valid")
}

fn sequential(nodes: usize) -> CompiledGraph {
    use data::node_name as name;
    let mut graph = StateGraph::with_channels(&["count", "until"]).add_edge(START, &name(0));
    for index in 0..nodes {
        let next = if index + 1 < nodes { name(index + 1) } else { END.to_owned() };
        graph = graph.add_node_fn(&name(index), tick).add_edge(&name(index), &next);
    }
    graph.compile().expect("the graph is valid")
}

fn nested() -> CompiledGraph {
    let inner = StateGraph::with_channels(&["count"])
        .add_node_fn("tick", tick)
        .add_edge(START, "tick")
        .add_edge("tick", END)
        .compile()
        .expect("the graph is valid");
    StateGraph::with_channels(&["count", "until"])
        .add_node(SubgraphNode::new("call", Arc::new(inner)))
        .add_edge(START, "call")
        .add_conditional_edges("call", turn, [("again", "call"), (END, END)])
        .compile()
        .expect("the graph is valid")
}

fn threads(count: usize) -> Job {
    let graph = Arc::new(loop_graph().with_checkpointer(MemoryCheckpointer::new()));
    concurrent(count, move || {
        let (graph, input) = (graph.clone(), counter(data::THREAD_STEPS as usize));
        async move {
            let state = graph.invoke(input, config()).await.expect("the run succeeds");
            number(&state, "count") as usize
        }
    })
}

fn cpu_branches() -> CompiledGraph {
    let schema = StateSchema::builder().channel("branches").channel("seed").list_channel("results");
    StateGraph::new(schema.build())
        .add_node_fn("scatter", |context| async move {
            let seeds = (0..number(&context.state, "branches")).map(Value::from);
            let results = scatter(&context, ("spin", "seed", "results"), seeds).await?;
            Ok(NodeOutput::new().with_update("results", Value::Array(results)))
        })
        .add_node_fn("spin", |context| async move {
            let result = data::spin(number(&context.state, "seed"));
            Ok(NodeOutput::new().with_update("results", result))
        })
        .add_edge(START, "scatter")
        .add_edge("scatter", END)
        .compile()
        .expect("the graph is valid")
}
