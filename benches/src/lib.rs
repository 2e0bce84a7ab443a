//! Side-by-side measurements of the engine: the same work on graph-core, by hand on tokio, and in LangGraph.

pub mod by_hand;
pub mod engine;
