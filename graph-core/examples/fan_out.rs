//! Fan-out: one task per section. The results arrive in the order in which the sections were sent.
#![expect(clippy::print_stdout, reason = "an example for the terminal")]

use graph_core::{Context, NodeError, Route, START, State, StateGraph};
use serde::{Deserialize, Serialize};

#[derive(State, Clone, Debug, Default)]
struct Essay {
    topic: String,
    #[reduce(append)]
    parts: Vec<String>,
    text: String,
}

/// The dependencies of the nodes. The writer simulates a language model.
struct Writer {
    style: &'static str,
}

#[derive(Clone, Serialize, Deserialize)]
struct Section {
    title: String,
}

#[derive(Route)]
enum Plan {
    #[to(write)]
    Sections(Vec<Section>),
}

fn plan(essay: &Essay) -> Plan {
    let titles = ["why", "how", "what next"].map(|it| format!("{it} {}", essay.topic));
    Plan::Sections(titles.map(|title| Section { title }).into())
}

async fn write(section: Section, cx: &Context<Writer>) -> Result<EssayUpdate, NodeError> {
    Ok(Essay::update().parts([format!("{} ({})", section.title, cx.deps().style)]))
}

async fn bind(essay: &Essay) -> EssayUpdate {
    Essay::update().text(essay.parts.join("; "))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let graph = StateGraph::<Essay, Writer>::new()
        .node(write)
        .node(bind)
        .branch(START, plan)
        .edge(write, bind)
        .compile()?;
    let input = Essay { topic: "rust".into(), ..Default::default() };
    let essay = graph.invoke(input, Writer { style: "plain words" }).await?;
    println!("{}", essay.text);
    Ok(())
}
