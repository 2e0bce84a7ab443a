//! Executes a run step by step. Shows how to inspect, edit, continue and fork it.
#![expect(clippy::print_stdout, reason = "an example for the terminal")]

use graph_core::{MemorySaver, Route, START, State, StateGraph};
use graph_trace::{Debugger, Detail, TextOptions};

#[derive(State, Clone, Debug, Default)]
struct Guess {
    low: u32,
    high: u32,
    #[reduce(append)]
    tried: Vec<u32>,
}

#[derive(Route)]
enum Next {
    #[to(guess)]
    Again,
    #[to(done)]
    Done,
}

fn next(state: &Guess) -> Next {
    if state.high - state.low > 1 { Next::Again } else { Next::Done }
}

/// Searches for the square root of 2,000.
async fn guess(state: &Guess) -> GuessUpdate {
    let middle = (state.low + state.high) / 2;
    let update = Guess::update().tried([middle]);
    if middle * middle <= 2000 { update.low(middle) } else { update.high(middle) }
}

async fn done(_: &Guess) {}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let graph = StateGraph::<Guess>::new()
        .node(guess)
        .node(done)
        .edge(START, guess)
        .branch(guess, next)
        .checkpointer(MemorySaver::new())
        .compile()?;
    let mut debugger = Debugger::new(graph.thread("guess-1", ()))
        .break_when(|it| it.tried.len() == 3)
        .break_before("done");
    debugger.start(Guess { low: 0, high: 100, ..Guess::default() }).await?;
    println!("next {:?}, state {:?}", debugger.next(), debugger.state());

    let steps = debugger.continue_run().await?;
    println!("halted after {} steps, state {:?}", steps.len(), debugger.state());

    debugger.edit(Guess::update().high(46)).await?;
    debugger.continue_run().await?;
    println!("after the edit: next {:?}, state {:?}", debugger.next(), debugger.state());

    let mut other = debugger.fork_at(3).await?;
    other.clear_breakpoints();
    other.continue_run().await?;
    println!("without the edit: done {}, state {:?}", other.is_done(), other.state());

    print!("{}", debugger.trace().text(TextOptions::new(Detail::Updates)));
    Ok(())
}
