//! Caching: a node with a cache does not run again for an input that it has seen.
#![expect(clippy::print_stdout, reason = "an example for the terminal")]

use graph_core::{CachePolicy, MemoryCache, NodeExt, START, State, StateGraph};

#[derive(State, Clone, Debug, Default)]
struct Square {
    number: u64,
    result: u64,
}

async fn square(state: &Square) -> SquareUpdate {
    println!("computing the square of {}", state.number);
    Square::update().result(state.number * state.number)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let graph = StateGraph::<Square>::new()
        .node(square.cache(CachePolicy::new()))
        .edge(START, square)
        .cache(MemoryCache::new())
        .compile()?;
    for number in [7, 8, 7] {
        let state = graph.invoke(Square { number, ..Default::default() }, ()).await?;
        println!("{number}² = {}", state.result);
    }
    Ok(())
}
