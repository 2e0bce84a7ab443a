//! Side-by-side measurements of the engine: the same work on graph-core, by hand on tokio, and in LangGraph; of
//! stored threads, beside LangGraph's savers; and of what the layers of `llm` add to a call.

pub mod baseline;
pub mod engine;
pub mod langgraph;
pub mod llm_layers;
pub mod measure;
pub mod storage;
pub mod table;
pub mod workload;
