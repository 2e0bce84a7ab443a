//! The agent conformance driver: runs cases recorded from LangChain's agents (`fixtures/agents/FORMAT.md`) on
//! `graph-agents` and reports where the answers differ.

mod answer;
mod build;
mod case;
mod compare;
mod custom;
mod error;
mod log;
mod middleware;
mod model;
mod ordered;
mod program;
mod script;
mod shared_data;
mod spec;
mod text;
mod tool;

pub use case::AgentCase;
pub use compare::difference;
use serde_json::Value;

use crate::isolated::{CaseError, on_thread};

/// Runs a case. Returns one answer per call.
pub fn run(case: &AgentCase) -> Result<Vec<Value>, CaseError> {
    let case = case.clone();
    on_thread(move || async move { script::answers(&case).await })
}
