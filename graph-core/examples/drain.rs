//! Run control: a drained run stops at the end of its step, as in a shutdown, and is continued afterwards.
#![expect(clippy::print_stdout, reason = "an example for the terminal")]

use graph_core::{
    Context, END, MemorySaver, Route, RunControl, RunOptions, START, State, StateGraph,
};

#[derive(State, Clone, Debug, Default)]
struct Job {
    #[reduce(add)]
    done: u32,
}

async fn work(job: &Job, cx: &Context<RunControl>) -> JobUpdate {
    if job.done == 1 {
        println!("the shutdown signal arrives in the middle of item 2");
        cx.deps().drain();
    }
    println!("item {} is done", job.done + 1);
    Job::update().done(1)
}

#[derive(Route)]
enum Next {
    #[to(work)]
    Another,
    #[to(END)]
    Done,
}

fn next(job: &Job) -> Next {
    if job.done < 4 { Next::Another } else { Next::Done }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let graph = StateGraph::<Job, RunControl>::new()
        .node(work)
        .edge(START, work)
        .branch(work, next)
        .checkpointer(MemorySaver::new())
        .compile()?;
    let control = RunControl::new();
    let options = RunOptions::new().control(control.clone());
    let outcome = graph.thread("job", control).with_options(options).run(Job::default()).await?;
    println!("stopped: {outcome:?}");

    let outcome = graph.thread("job", RunControl::new()).proceed().await?;
    println!("continued: {outcome:?}");
    Ok(())
}
