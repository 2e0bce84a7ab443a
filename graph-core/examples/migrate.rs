//! Migrations: a new version of a program, whose state has different fields, loads a thread that the old version
//! stored.
#![expect(clippy::print_stdout, reason = "an example for the terminal")]

use graph_core::{MemorySaver, Migrations, START, State, StateGraph};
use serde_json::json;

#[derive(State, Clone, Debug, Default)]
struct OldChat {
    text: String,
}

#[derive(State, Clone, Debug, Default)]
#[state(version = 2)]
struct Chat {
    #[reduce(append)]
    lines: Vec<String>,
    language: String,
}

async fn wait(_: &OldChat) {}

async fn reply(chat: &Chat) -> ChatUpdate {
    Chat::update().lines([format!("reply {} in {}", chat.lines.len(), chat.language)])
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let saver = MemorySaver::new();
    let old = StateGraph::<OldChat>::new()
        .node_as("reply", wait)
        .edge(START, "reply")
        .checkpointer(saver.clone())
        .compile()?;
    let outcome = old.thread("chat", ()).run(OldChat { text: "hello".into() }).await?;
    println!("stored: {:?}", outcome.state());

    let migrations = Migrations::new()
        .rename(1, "text", "lines")
        .retype(1, "lines", |text| json!([text]))
        .fill(1, "language", json!("English"));
    let new = StateGraph::<Chat>::new()
        .node(reply)
        .edge(START, reply)
        .migrations(migrations)
        .checkpointer(saver)
        .compile()?;
    let thread = new.thread("chat", ());
    println!("loaded: {:?}", thread.state().await?.map(|it| it.values));
    let outcome = thread.run(graph_core::Input::update(Chat::update())).await?;
    println!("continued: {:?}", outcome.state());
    Ok(())
}
