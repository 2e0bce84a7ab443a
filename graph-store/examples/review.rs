//! Human review of a tool call, across processes: the first run asks and ends, the second one answers.
//!
//! ```sh
//! cargo run -p graph-store --example review           # prints the call that waits for a review
//! cargo run -p graph-store --example review approve   # in another process, at any later time
//! ```
#![expect(clippy::print_stdout, reason = "an example for the terminal")]

use std::env;

use graph_core::{Context, NodeError, RunOutcome, START, State, StateGraph};
use graph_store::SqliteSaver;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Transfer {
    to: String,
    amount: u32,
}

#[derive(State, Clone, Debug, Default)]
struct Chat {
    question: String,
    call: Transfer,
    answer: String,
}

/// Simulates a model that answers with a tool call.
async fn assistant(_: &Chat) -> ChatUpdate {
    Chat::update().call(Transfer { to: "Ann".into(), amount: 40 })
}

async fn tools(chat: &Chat, cx: &Context) -> Result<ChatUpdate, NodeError> {
    let decision: String = cx.interrupt(&chat.call)?;
    if decision != "approve" {
        return Ok(Chat::update().answer("The transfer was rejected."));
    }
    // Journaled: the money is sent once, even if the process dies before the step is stored.
    let Transfer { to, amount } = chat.call.clone();
    let receipt = cx.task("transfer", &to, async { Ok(format!("Sent {amount} to {to}.")) }).await?;
    Ok(Chat::update().answer(receipt))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let graph = StateGraph::<Chat>::new()
        .node(assistant)
        .node(tools)
        .edge(START, assistant)
        .edge(assistant, tools)
        .checkpointer(SqliteSaver::open(env::temp_dir().join("graph-store-review.db"))?)
        .compile()?;
    let thread = graph.thread("ann", ());
    let outcome = match env::args().nth(1) {
        Some(decision) => thread.resume(decision).await?,
        None => thread.run(Chat::update().question("Send Ann 40 euros.")).await?,
    };
    match outcome {
        RunOutcome::Interrupted { interrupts, .. } => {
            println!("{}: run again with `approve` or `reject`", interrupts[0].value);
        }
        outcome => println!("{}", outcome.state().answer),
    }
    Ok(())
}
