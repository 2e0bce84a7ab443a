//! Time travel: find the checkpoint before a node, run it again with another value, and keep both branches.
#![expect(clippy::print_stdout, reason = "an example for the terminal")]

use graph_core::{AsNode, HistoryFilter, MemorySaver, START, State, StateGraph};

#[derive(State, Clone, Debug, Default)]
struct Joke {
    topic: String,
    joke: String,
}

async fn choose(_: &Joke) -> JokeUpdate {
    Joke::update().topic("compilers")
}

async fn tell(joke: &Joke) -> JokeUpdate {
    Joke::update().joke(format!("Two {} walk into a bar.", joke.topic))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let graph = StateGraph::<Joke>::new()
        .node(choose)
        .node(tell)
        .edge(START, choose)
        .edge(choose, tell)
        .checkpointer(MemorySaver::new())
        .compile()?;
    let thread = graph.thread("t", ());
    println!("{}", thread.run(Joke::default()).await?.into_state().joke);

    let before_tell = thread.history(HistoryFilter::new().next("tell").limit(1)).await?;
    let fork = thread.at(before_tell[0].id);
    let edited = fork.update_state(Joke::update().topic("borrow checkers"), AsNode::Last).await?;
    println!("{}", thread.at(edited).proceed().await?.into_state().joke);
    println!("{} checkpoints", thread.history(None).await?.len());
    Ok(())
}
