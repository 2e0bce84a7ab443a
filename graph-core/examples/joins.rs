//! Joins and deferral: one node waits for two paths of different lengths, another one for everything.
#![expect(clippy::print_stdout, reason = "an example for the terminal")]

use graph_core::{NodeExt, START, State, StateGraph};

#[derive(State, Clone, Debug, Default)]
struct Trail {
    #[reduce(append)]
    path: Vec<String>,
}

fn visited(node: &str) -> TrailUpdate {
    Trail::update().path([node.to_owned()])
}

async fn quick(_: &Trail) -> TrailUpdate {
    visited("quick")
}

async fn slow(_: &Trail) -> TrailUpdate {
    visited("slow")
}

async fn slower(_: &Trail) -> TrailUpdate {
    visited("slower")
}

async fn collect(_: &Trail) -> TrailUpdate {
    visited("collect")
}

async fn report(_: &Trail) -> TrailUpdate {
    visited("report")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let graph = StateGraph::<Trail>::new()
        .node(quick)
        .node(slow)
        .node(slower)
        .node(collect)
        .node(report.defer())
        .edge(START, quick)
        .edge(START, slow)
        .edge(slow, slower)
        // `collect` runs once, after both sources. With two plain edges, it would run twice.
        .join((quick, slower), collect)
        // Scheduled in the second step, but deferred until nothing else is left.
        .edge(quick, report)
        .compile()?;
    println!("{}", graph.invoke(Trail::default(), ()).await?.path.join(" → "));
    Ok(())
}
