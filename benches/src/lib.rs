//! Side-by-side measurements of the engine: the same work on graph-core, by hand on tokio, and in LangGraph; and of
//! stored threads, beside LangGraph's savers.

pub mod by_hand;
pub mod engine;
pub mod langgraph;
pub mod measure;
pub mod storage;
pub mod table;
pub mod workload;
