//! Benchmarks. They compare the engine with the work by hand, with LangGraph and with other Rust crates, compare our
//! savers with LangGraph's and our agents with LangChain's, measure the overhead of the layers of `llm`, and
//! compare eager graphs with ordinary ones.

#![allow(missing_docs, reason = "only the tests and programs of this workspace use this crate")]

pub mod agents;
pub mod baseline;
pub mod compare;
pub mod data;
pub mod eager;
pub mod engine;
pub mod langgraph;
pub mod llm_layers;
pub mod measure;
pub mod protocol;
pub mod storage;
pub mod table;
pub mod works;
