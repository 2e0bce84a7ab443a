//! Benchmarks. They compare the engine with plain tokio and with LangGraph, compare our savers with LangGraph's and our
//! agents with LangChain's, and measure the overhead of the layers of `llm`.

#![allow(missing_docs, reason = "only the tests and programs of this workspace use this crate")]

pub mod agents;
pub mod baseline;
pub mod engine;
pub mod langgraph;
pub mod llm_layers;
pub mod measure;
pub mod storage;
pub mod table;
pub mod workload;
