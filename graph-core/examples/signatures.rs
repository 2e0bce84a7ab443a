//! Nodes: the four signatures, a closure, and dependencies that a run passes to its nodes.
#![expect(clippy::print_stdout, reason = "an example for the terminal")]

use graph_core::{Context, START, State, StateGraph, send};
use serde::{Deserialize, Serialize};

#[derive(State, Clone, Debug, Default)]
struct Trail {
    #[reduce(append)]
    path: Vec<String>,
}

/// Dependencies: clients, pools and models belong here, not in the state.
struct Deps {
    greeting: &'static str,
}

#[derive(Clone, Serialize, Deserialize)]
struct Item(u32);

fn visited(text: String) -> TrailUpdate {
    Trail::update().path([text])
}

async fn on_state(trail: &Trail) -> TrailUpdate {
    visited(format!("state with {} entries", trail.path.len()))
}

async fn with_context(_: &Trail, cx: &Context<Deps>) -> TrailUpdate {
    visited(format!("{} from step {}", cx.deps().greeting, cx.step()))
}

async fn on_payload(item: Item) -> TrailUpdate {
    visited(format!("payload {}", item.0))
}

async fn on_payload_with_context(item: Item, cx: &Context<Deps>) -> TrailUpdate {
    visited(format!("{}, payload {}", cx.deps().greeting, item.0))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let graph = StateGraph::<Trail, Deps>::new()
        .node(on_state)
        .node(with_context)
        .node(on_payload)
        .node(on_payload_with_context)
        .node_as("closure", async |_: &Trail| visited("a closure".to_owned()))
        .edge(START, on_state)
        .edge(on_state, with_context)
        .edge(with_context, "closure")
        .branch("closure", |_: &Trail| {
            vec![send(on_payload, Item(1)), send(on_payload_with_context, Item(2))]
        })
        .compile()?;
    println!("{:#?}", graph.invoke(Trail::default(), Deps { greeting: "hello" }).await?.path);
    Ok(())
}
