//! Subgraphs: a graph with another state as a node. A failed subgraph continues from its own checkpoint.
#![expect(clippy::print_stdout, reason = "an example for the terminal")]

use std::sync::atomic::{AtomicBool, Ordering};

use graph_core::{Context, MemorySaver, NodeError, START, State, StateGraph, subgraph};

#[derive(State, Clone, Debug, Default)]
struct Draft {
    title: String,
    #[reduce(append)]
    lines: Vec<String>,
}

#[derive(State, Clone, Debug, Default)]
struct Essay {
    topic: String,
    text: String,
}

/// Whether the network is up.
type Network = AtomicBool;

async fn research(draft: &Draft) -> DraftUpdate {
    println!("research runs");
    Draft::update().lines([format!("All about {}.", draft.title)])
}

async fn polish(_: &Draft, cx: &Context<Network>) -> Result<DraftUpdate, NodeError> {
    println!("polish runs");
    if !cx.deps().swap(true, Ordering::Relaxed) {
        return Err("the network is down".into());
    }
    Ok(Draft::update().lines(["The end.".to_owned()]))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let drafting = StateGraph::<Draft, Network>::new()
        .node(research)
        .node(polish)
        .sequence((research, polish))
        .compile()?;
    let write = subgraph(
        "write",
        &drafting,
        |essay: &Essay| Draft { title: essay.topic.clone(), ..Default::default() },
        |draft| Essay::update().text(draft.lines.join(" ")),
    );
    let graph = StateGraph::<Essay, Network>::new()
        .node(write)
        .edge(START, "write")
        .checkpointer(MemorySaver::new())
        .compile()?;
    let thread = graph.thread("essay", Network::new(false));
    if let Err(error) = thread.run(Essay { topic: "tea".into(), ..Default::default() }).await {
        println!("{error}");
    }
    println!("{}", thread.proceed().await?.state().text);
    Ok(())
}
