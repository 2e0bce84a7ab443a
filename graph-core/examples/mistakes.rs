//! Common mistakes, and the errors that explain them.
#![expect(clippy::print_stdout, reason = "an example for the terminal")]

use std::fmt::Display;

use graph_core::{Context, MemorySaver, NodeError, RunOptions, START, State, StateGraph, Stops};

#[derive(State, Clone, Debug, Default)]
struct Chat {
    name: String,
    #[reduce(append)]
    lines: Vec<String>,
    mood: String,
}

async fn greet(chat: &Chat) -> Result<ChatUpdate, NodeError> {
    if chat.name.is_empty() {
        return Err("the name is empty".into());
    }
    Ok(Chat::update().lines([format!("Hello {}!", chat.name)]).mood("calm"))
}

async fn cheer(_: &Chat) -> ChatUpdate {
    Chat::update().mood("happy")
}

/// Raises an interrupt, but does not propagate its error with `?`.
async fn confirm(_: &Chat, cx: &Context) -> ChatUpdate {
    let happy = cx.interrupt("Happy?").unwrap_or(false);
    Chat::update().mood(if happy { "happy" } else { "calm" })
}

fn show<T>(result: Result<T, impl Display>) {
    if let Err(error) = result {
        println!("{error}\n");
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ann = || Chat { name: "Ann".into(), ..Default::default() };
    let greeter = || StateGraph::<Chat>::new().node(greet).edge(START, greet);

    // An edge to a node that does not exist, and a graph without an edge from START.
    show(greeter().edge("greet", "cheeer").node(cheer).compile());
    show(StateGraph::<Chat>::new().node(greet).compile());
    // A node that no edge leads to.
    show(greeter().node(cheer).compile());

    // Two nodes write one field in the same step.
    let both = greeter().node(cheer).edge(START, cheer).compile()?;
    show(both.invoke(ann(), ()).await);

    // A node fails; a loop does not end; there is no checkpointer.
    let graph = greeter().compile()?;
    show(graph.invoke(Chat::default(), ()).await);
    let endless = greeter().edge(greet, greet).compile()?.with(RunOptions::new().step_limit(5));
    show(endless.invoke(ann(), ()).await);
    show(graph.thread("ann", ()).run(ann()).await);

    // A node raises an interrupt, but does not return its error.
    let silent = StateGraph::<Chat>::new().node(confirm).edge(START, confirm).compile()?;
    show(silent.invoke(ann(), ()).await);

    // A thread gets a whole state twice; a static stop is set at a node that does not exist.
    let thread = greeter().checkpointer(MemorySaver::new()).compile()?.thread("ann", ());
    thread.invoke(ann()).await?;
    show(thread.run(ann()).await);
    let options = RunOptions::new().stop_before(Stops::at(["gret"]));
    show(thread.with_options(options).proceed().await);
    Ok(())
}
