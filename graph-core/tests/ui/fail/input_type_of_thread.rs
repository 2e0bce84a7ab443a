//! The input of a thread is a state, an update or an `Input`.

use graph_core::{RunError, RunOutcome, State, Thread};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}

async fn run(thread: Thread<Essay>) -> Result<RunOutcome<Essay>, RunError> {
    thread.run(3).await
}

fn main() {}
