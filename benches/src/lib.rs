//! Benchmarks.
//!
//! They compare the engine with handwritten code, with LangGraph and with other Rust crates, our savers with
//! LangGraph's, and eager graphs with ordinary ones. They also measure the overhead of the layers of `llm`, the start
//! of sandboxes, and builds with an empty target directory.

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
