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

use std::{
    fs, io,
    path::Path,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

pub use case::AgentCase;
pub use compare::differences;
use serde_json::Value;

/// Time after which a case is aborted.
const CASE_TIMEOUT: Duration = Duration::from_secs(300);

/// Reads a file that contains one case per line. A line that is not a valid case becomes an error.
pub fn read(path: &Path) -> io::Result<Vec<Result<AgentCase, serde_json::Error>>> {
    let text = fs::read_to_string(path)?;
    let lines = text.lines().filter(|it| !it.trim().is_empty());
    Ok(lines.map(serde_json::from_str).collect())
}

/// Runs a case. Returns one answer per call, or a description of why there are none.
pub fn run(case: &AgentCase) -> Result<Vec<Value>, String> {
    let (sender, answers) = mpsc::channel();
    let case = case.clone();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("the process can open a file descriptor for the runtime");
        // Ignore the error, because the receiver has been dropped if the case has timed out.
        let _ = sender.send(runtime.block_on(script::answers(&case)));
    });
    match answers.recv_timeout(CASE_TIMEOUT) {
        Ok(answers) => Ok(answers),
        Err(RecvTimeoutError::Timeout) => Err(format!("timed out after {CASE_TIMEOUT:?}")),
        Err(RecvTimeoutError::Disconnected) => Err("panicked".to_owned()),
    }
}
