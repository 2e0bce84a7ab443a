//! Time travel: an old checkpoint is edited and continued; the first branch stays in the history.
#![expect(clippy::print_stdout, reason = "an example for the terminal")]

use graph_core::{AsNode, MemorySaver, State, StateGraph};

#[derive(State, Clone, Debug, Default)]
struct Story {
    hero: String,
    #[reduce(append)]
    lines: Vec<String>,
}

async fn begin(_: &Story) -> StoryUpdate {
    Story::update().hero("Ada")
}

async fn tell(story: &Story) -> StoryUpdate {
    Story::update().lines([format!("{} wrote a program.", story.hero)])
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let graph = StateGraph::<Story>::new()
        .node(begin)
        .node(tell)
        .sequence((begin, tell))
        .checkpointer(MemorySaver::new())
        .compile()?;
    let thread = graph.thread("story", ());
    println!("{:?}", thread.run(Story::default()).await?.state().lines);

    let history = thread.history(None).await?;
    let before = history.iter().find(|it| it.next == ["tell"]).ok_or("`tell` never ran")?;
    thread.at(before.id).update_state(Story::update().hero("Bob"), AsNode::node("begin")).await?;
    println!("{:?}", thread.proceed().await?.state().lines);

    for state in thread.history(None).await? {
        let lines = state.values.lines.join(" ");
        println!("step {:>2} {:<6} {lines}", state.step, state.source.as_str());
    }
    Ok(())
}
