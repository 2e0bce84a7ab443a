//! What crosses crates: the conformance driver, property tests, end-to-end tests.
//!
//! The driver reads cases written as data (`fixtures/conformance/FORMAT.md`), runs each on the engine, and says
//! where the engine's answers are not those that LangGraph gave: [`run`] and [`compare()`] are all a caller needs.
//! The answers are the same whatever keeps the threads, so a case can run on each [`SaverKind`].

mod answer;
mod board;
mod build;
pub mod by_hand;
pub mod case;
pub mod compare;
pub mod crash;
mod error;
pub mod expr;
mod node;
pub mod postgres;
mod saver;
mod script;

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use serde_json::Value;

pub use case::Case;
pub use compare::{Difference, compare};
pub use saver::{SaverError, SaverKind, UnknownSaver};

/// How long a case may take before it is given up.
const PATIENCE: Duration = Duration::from_secs(20);

/// A file of cases that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file itself.
    #[error("cannot read {path}: {error}")]
    File {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        error: io::Error,
    },
    /// A line that is no case.
    #[error("{path}:{line} is no case: {error}")]
    Line {
        /// The file.
        path: PathBuf,
        /// The line's number, from 1.
        line: usize,
        /// What went wrong.
        error: serde_json::Error,
    },
}

/// A case that came to no answers.
#[derive(Debug, thiserror::Error)]
pub enum GaveUp {
    /// There is nothing to keep its threads in.
    #[error("it was not run: {0}")]
    NoSaver(#[from] SaverError),
    /// It took too long.
    #[error("it was given up after {PATIENCE:?}")]
    Hangs,
    /// The engine or the driver panicked.
    #[error("it panicked")]
    Panicked,
}

/// Reads a file of cases, one a line.
pub fn read(path: &Path) -> Result<Vec<Case>, ReadError> {
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

/// Runs a case on the engine, with a new saver, and gives its answers, one a call.
///
/// It runs on a thread of its own, so that neither a panic nor a loop without end takes the caller along.
pub fn run(case: &Case, saver: SaverKind) -> Result<Vec<Value>, GaveUp> {
    let (sender, answers) = mpsc::channel();
    let case = case.clone();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("the system has a handle left for the runtime's I/O");
        let answers = runtime.block_on(async {
            let saver = saver.open().await?;
            Ok(script::answers(&case, &saver.checkpointer).await)
        });
        // Nobody listens any more once the case was given up.
        let _ = sender.send(answers);
    });
    match answers.recv_timeout(PATIENCE) {
        Ok(answers) => answers,
        Err(RecvTimeoutError::Timeout) => Err(GaveUp::Hangs),
        Err(RecvTimeoutError::Disconnected) => Err(GaveUp::Panicked),
    }
}
