//! The type of a resume value must be known.

use graph_core::{Context, NodeError, START, State, StateGraph};

#[derive(State, Clone, Default)]
struct Essay {
    topic: String,
}

async fn ask(_: &Essay, cx: &Context) -> Result<EssayUpdate, NodeError> {
    let approved = cx.interrupt("Publish?")?;
    Ok(Essay::update())
}

fn main() {
    let _ = StateGraph::<Essay>::new().node(ask).edge(START, ask);
}
