//! A custom reducer must implement `Reducer`.

use graph_core::{END, START, State, StateGraph};

struct Longest;

#[derive(State, Clone, Default)]
struct Essay {
    #[reduce(Longest)]
    topic: String,
    count: u32,
}

async fn write(essay: &Essay) -> EssayUpdate {
    Essay::update().topic("rust").count(essay.count + 1)
}

fn main() {
    let graph = StateGraph::<Essay>::new().node(write).edge(START, write).edge(write, END);
    let _ = graph.compile();
}
