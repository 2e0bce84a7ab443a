//! Inputs and resume values of invalid types.

use graph_core::{
    CompiledGraph, Context, NodeError, RunError, RunOutcome, START, State, StateGraph, Thread,
};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}

/// The input of a run is a state, an update or an `Input`.
fn input_of_stream(graph: CompiledGraph<Essay>) {
    let _ = graph.stream("rust", ());
}

/// The input of `invoke` is a state, an update or an `Input`.
async fn input_of_invoke(graph: CompiledGraph<Essay>) -> Result<Essay, RunError> {
    graph.invoke("rust", ()).await
}

/// The input of a thread is a state, an update or an `Input`.
async fn input_of_thread(thread: Thread<Essay>) -> Result<RunOutcome<Essay>, RunError> {
    thread.run(3).await
}

/// The type of a resume value must be known.
fn resume_value() {
    async fn ask(_: &Essay, cx: &Context) -> Result<EssayUpdate, NodeError> {
        let approved = cx.interrupt("Publish?")?;
        Ok(Essay::update())
    }
    let _ = StateGraph::<Essay>::new().node(ask).edge(START, ask);
}

fn main() {}
