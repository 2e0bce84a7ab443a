//! Drawings of a graph with a subgraph: Mermaid, DOT and JSON.
#![expect(clippy::print_stdout, reason = "an example for the terminal")]

use graph_core::{END, Route, START, State, StateGraph, subgraph};

#[derive(State, Clone, Debug, Default)]
struct Essay {
    text: String,
}

async fn write(_: &Essay) {}

async fn check_facts(_: &Essay) {}

async fn check_style(_: &Essay) {}

#[derive(Route)]
enum Verdict {
    #[to(write)]
    Again,
    #[to(END)]
    Good,
}

fn verdict(essay: &Essay) -> Verdict {
    if essay.text.is_empty() { Verdict::Good } else { Verdict::Again }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let review = StateGraph::<Essay>::new()
        .node(check_facts)
        .node(check_style)
        .sequence((check_facts, check_style))
        .compile()?;
    let review = subgraph("review", &review, Essay::clone, |_| Essay::update());
    let graph = StateGraph::<Essay>::new()
        .node(write)
        .node(review)
        .edge(START, write)
        .edge(write, "review")
        .branch("review", verdict)
        .compile()?;
    println!("{}", graph.mermaid());
    println!("{}", graph.mermaid_expanded(1));
    println!("{}", graph.dot(0));
    println!("{:#}", graph.to_json(0));
    Ok(())
}
