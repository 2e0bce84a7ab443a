//! Threads: a failed step is resumed, and only the task that failed runs again.
#![expect(clippy::print_stdout, reason = "an example for the terminal")]

use std::sync::atomic::{AtomicU32, Ordering};

use graph_core::{Context, MemorySaver, NodeError, START, State, StateGraph};

#[derive(State, Clone, Debug, Default)]
struct Report {
    #[reduce(append)]
    parts: Vec<String>,
}

async fn steady(_: &Report) -> ReportUpdate {
    println!("steady runs");
    Report::update().parts(["steady".to_owned()])
}

async fn shaky(_: &Report, cx: &Context<AtomicU32>) -> Result<ReportUpdate, NodeError> {
    println!("shaky runs");
    match cx.deps().fetch_add(1, Ordering::Relaxed) {
        0 => Err("the network is down".into()),
        _ => Ok(Report::update().parts(["shaky".to_owned()])),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let graph = StateGraph::<Report, AtomicU32>::new()
        .node(steady)
        .node(shaky)
        .edge(START, steady)
        .edge(START, shaky)
        .checkpointer(MemorySaver::new())
        .compile()?;
    let thread = graph.thread("report", AtomicU32::new(0));
    if let Err(error) = thread.run(Report::default()).await {
        println!("{error}");
    }
    println!("still to do: {:?}", thread.state().await?.map(|it| it.next));
    println!("{:?}", thread.proceed().await?.state());
    // The thread keeps its state: a second run continues with it.
    println!("{:?}", thread.run(Report::default()).await?.state());
    Ok(())
}
