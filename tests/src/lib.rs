//! Tests that span several crates: the conformance driver, property tests and end-to-end tests.
//!
//! The conformance driver reads cases (`fixtures/conformance/FORMAT.md`), runs each case on the engine, and reports
//! where the engine's answers differ from LangGraph's; see [`run`] and [`compare()`]. The answers do not depend on the
//! saver, so a case can be run with each [`SaverKind`]. They do not depend on running ahead either (see [`eager`]),
//! nor, with the feature `cluster`, on running on a cluster (see the module `cluster`). The module [`agents`] does the
//! same for agents.

#![allow(missing_docs, reason = "only the tests and programs of this workspace use this crate")]

pub mod agents;
mod answer;
mod build;
mod built_graph;
pub mod case;
#[cfg(feature = "cluster")]
pub mod cluster;
pub mod compare;
mod counters;
pub mod crash;
mod declared;
pub mod eager;
mod error;
mod executor;
pub mod expr;
mod isolated;
mod node;
pub mod postgres;
pub mod postgres_tls;
mod remote_tasks;
mod saver;
mod script;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::de::DeserializeOwned;
use serde_json::Value;

use build::Mode;
pub use case::Case;
pub use compare::{Difference, compare};
pub use executor::{CaseRun, ExecutedRun, ExecutorError, RunExecutor, RunInput};
pub use isolated::CaseError;
pub use saver::{SaverError, SaverKind, UnknownSaverError};
pub use script::Execution;

/// The error returned when a file of cases cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("cannot read {path}: {error}")]
    File { path: PathBuf, error: io::Error },
    /// A line is not a valid case.
    #[error("{path}:{line}: invalid case: {error}")]
    Line {
        path: PathBuf,
        /// Number of the line, starting at 1.
        line: usize,
        error: serde_json::Error,
    },
}

/// Reads a file that contains one case per line.
pub fn read<C: DeserializeOwned>(path: &Path) -> Result<Vec<C>, ReadError> {
    let file = |error| ReadError::File { path: path.to_owned(), error };
    let text = fs::read_to_string(path).map_err(file)?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let parse = |(index, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|error| ReadError::Line {
            path: path.to_owned(),
            line: index + 1,
            error,
        })
    };
    lines.map(parse).collect()
}

/// Runs a case on the engine with a new saver. Returns one answer per call.
pub fn run(case: &Case, saver: SaverKind, execution: &Execution) -> Result<Vec<Value>, CaseError> {
    isolated::run(case, saver, Mode::Ordinary, execution).map(|it| it.values)
}
