//! All stream modes: one run, and the events that each mode adds to its stream.
#![expect(clippy::print_stdout, reason = "an example for the terminal")]

use graph_core::{
    Context, EventKind, MemorySaver, NodeError, RunOptions, State, StateGraph, StreamMode,
    stream::writes_to_json,
};
use serde_json::json;

#[derive(State, Clone, Debug, Default)]
struct Joke {
    topic: String,
    joke: String,
}

async fn refine(joke: &Joke) -> JokeUpdate {
    Joke::update().topic(format!("{} and cats", joke.topic))
}

async fn tell(joke: &Joke, cx: &Context) -> Result<JokeUpdate, NodeError> {
    cx.emit(json!({ "progress": 0.5 })).await;
    let text =
        cx.task("model", &joke.topic, async { Ok(format!("Why do {} …", joke.topic)) }).await?;
    for token in text.split_inclusive(' ') {
        cx.message(token).await;
    }
    Ok(Joke::update().joke(text))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let graph = StateGraph::<Joke>::new()
        .node(refine)
        .node(tell)
        .sequence((refine, tell))
        .checkpointer(MemorySaver::new())
        .compile()?
        .with(RunOptions::new().stream_modes(StreamMode::DEBUG));
    let mut events = graph.thread("joke", ()).stream(Joke::update().topic("dogs"));
    while let Some(event) = events.next().await {
        let (mode, node) = (event.kind.mode(), event.node.as_deref().unwrap_or("-"));
        let text = match event.kind {
            EventKind::Values(values) => values.to_json().to_string(),
            EventKind::Update { writes, .. } => writes_to_json(&writes).to_string(),
            EventKind::Custom(value) | EventKind::Message(value) => value.to_string(),
            EventKind::TaskStarted { .. } => "started".to_owned(),
            EventKind::TaskFinished { .. } => "finished".to_owned(),
            EventKind::Checkpoint { next, .. } => format!("stored; next: {next:?}"),
            EventKind::Effect { key, .. } => key,
            other => format!("{other:?}"),
        };
        println!("{mode:?} {node}: {text}");
    }
    println!("{}", events.finish().await?.into_state().joke);
    Ok(())
}
