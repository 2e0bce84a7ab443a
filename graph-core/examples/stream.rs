//! Streaming: the events of a graph and of its subgraph in one stream.
#![expect(clippy::print_stdout, reason = "an example for the terminal")]

use graph_core::{
    Context, END, EventKind, RunOptions, START, State, StateGraph, StreamMode,
    stream::writes_to_json, subgraph,
};

#[derive(State, Clone, Debug, Default)]
struct Draft {
    title: String,
    #[reduce(append)]
    lines: Vec<String>,
}

async fn sketch(draft: &Draft, cx: &Context) -> DraftUpdate {
    cx.emit(format!("thinking about {}", draft.title)).await;
    Draft::update().lines([format!("All about {}.", draft.title)])
}

#[derive(State, Clone, Debug, Default)]
struct Essay {
    topic: String,
    text: String,
}

async fn publish(essay: &Essay) -> EssayUpdate {
    Essay::update().text(essay.text.to_uppercase())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let drafting = StateGraph::<Draft>::new().node(sketch).sequence([sketch]).compile()?;
    let write = subgraph(
        "write",
        &drafting,
        |essay: &Essay| Draft { title: essay.topic.clone(), ..Default::default() },
        |draft| Essay::update().text(draft.lines.join("\n")),
    );
    let graph = StateGraph::<Essay>::new()
        .node(write)
        .node(publish)
        .edge(START, "write")
        .edge("write", publish)
        .edge(publish, END)
        .compile()?;
    let options =
        RunOptions::new().stream_modes([StreamMode::Updates, StreamMode::Custom]).subgraphs();
    let input = Essay { topic: "rust".into(), ..Default::default() };
    let mut events = graph.with(options).stream(input, ());
    while let Some(event) = events.next().await {
        let level = if event.namespace.is_empty() { "root" } else { "subgraph" };
        let node = event.node.as_deref().unwrap_or_default();
        match event.kind {
            EventKind::Update { writes, .. } => {
                println!("{} {level}: {node} {}", event.seq, writes_to_json(&writes));
            }
            EventKind::Custom(value) => println!("{} {level}: {node} emitted {value}", event.seq),
            _ => {}
        }
    }
    println!("{}", events.finish().await?.into_state().text);
    println!("{}", graph.mermaid_expanded(1));
    Ok(())
}
