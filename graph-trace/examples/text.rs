//! Renders a run as text. The run contains a fan-out, a retry, an external call and a subgraph.
#![expect(clippy::print_stdout, reason = "an example for the terminal")]

use graph_core::{
    Context, NodeError, NodeExt, Route, RunOptions, START, State, StateGraph, subgraph,
};
use graph_trace::{Detail, TextOptions};

#[derive(State, Clone, Debug, Default)]
struct Essay {
    topic: String,
    #[reduce(append)]
    drafts: Vec<String>,
    title: String,
}

#[derive(Route)]
enum FanOut {
    #[to(write)]
    Parts(Vec<u32>),
}

fn fan_out(_: &Essay) -> FanOut {
    FanOut::Parts(vec![1, 2])
}

async fn plan(_: &Essay, cx: &Context) -> Result<(), NodeError> {
    cx.emit("planning").await;
    match cx.attempt() {
        1 => Err("no idea yet".into()),
        _ => Ok(()),
    }
}

async fn write(part: u32, cx: &Context) -> Result<EssayUpdate, NodeError> {
    let fact = cx.task("look up", part, async { Ok(format!("fact {part}")) }).await?;
    Ok(Essay::update().drafts([fact]))
}

async fn name(_: &Essay) -> EssayUpdate {
    Essay::update().title("On tea")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let naming = StateGraph::<Essay>::new().node(name).edge(START, name).compile()?;
    let naming =
        subgraph("naming", &naming, Essay::clone, |it: Essay| Essay::update().title(it.title));
    let graph = StateGraph::<Essay>::new()
        .node(plan.retry(2))
        .node(write)
        .node(naming)
        .edge(START, plan)
        .branch(plan, fan_out)
        .edge(write, "naming")
        .compile()?;
    let essay = Essay { topic: "tea".into(), ..Essay::default() };
    let recorded = graph_trace::record(&graph, essay, (), RunOptions::new()).await;
    print!("{}", recorded.trace.text(TextOptions::new(Detail::Full).with_timing()));
    Ok(())
}
