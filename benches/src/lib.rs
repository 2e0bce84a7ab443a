//! Benchmarks. They compare the engine with the work by hand, with LangGraph and with other Rust crates, compare our
//! savers with LangGraph's, measure the overhead of the layers of `llm`, the start of sandboxes and a build from
//! nothing, and compare eager graphs with ordinary ones.

#![allow(missing_docs, reason = "only the tests and programs of this workspace use this crate")]

pub mod baseline;
pub mod build;
pub mod compare;
pub mod data;
pub mod eager;
pub mod engine;
pub mod langgraph;
pub mod llm_layers;
pub mod measure;
pub mod protocol;
pub mod sandboxes;
pub mod storage;
pub mod table;
pub mod workloads;
