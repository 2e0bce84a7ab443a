//! The input of `invoke` is a state, an update or an `Input`.

use graph_core::{CompiledGraph, RunError, State};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}

async fn run(graph: CompiledGraph<Essay>) -> Result<Essay, RunError> {
    graph.invoke("rust", ()).await
}

fn main() {}
