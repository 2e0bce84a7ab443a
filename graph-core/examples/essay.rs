//! A loop with a branch. This is the first example in the README.
#![expect(clippy::print_stdout, reason = "an example for the terminal")]

use graph_core::{END, Route, START, State, StateGraph};

#[derive(State, Clone, Debug, Default)]
struct Essay {
    topic: String,
    #[reduce(append)]
    drafts: Vec<String>,
}

async fn write(essay: &Essay) -> EssayUpdate {
    Essay::update().drafts([format!("Draft {} on {}", essay.drafts.len() + 1, essay.topic)])
}

#[derive(Route)]
enum Verdict {
    #[to(write)]
    Again,
    #[to(END)]
    Good,
}

fn review(essay: &Essay) -> Verdict {
    if essay.drafts.len() < 3 { Verdict::Again } else { Verdict::Good }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let graph = StateGraph::<Essay>::new()
        .node(write)
        .edge(START, write)
        .branch(write, review)
        .compile()?;
    let essay = graph.invoke(Essay { topic: "Rust".into(), ..Default::default() }, ()).await?;
    println!("{:#?}\n{}", essay.drafts, graph.mermaid());
    Ok(())
}
