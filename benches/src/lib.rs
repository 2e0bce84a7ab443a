//! Benchmarks: the engine compared with plain tokio and with LangGraph, stored threads compared with LangGraph's
//! savers, and the overhead of the layers of `llm`.

pub mod baseline;
pub mod engine;
pub mod langgraph;
pub mod llm_layers;
pub mod measure;
pub mod storage;
pub mod table;
pub mod workload;
