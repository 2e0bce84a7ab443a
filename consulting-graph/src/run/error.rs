//! Errors of operations on runs.

use std::path::PathBuf;

use app_support::{event_log::EventLogError, files::FileError, lock::LockError};

use crate::{config::ConfigError, models::ModelChoiceError};

/// The error returned when an operation on a run fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The directory of a new run is not empty.
    #[error("directory {} is not empty; choose another directory with --out, or resume the run in it with `consulting resume`", .0.display())]
    DirNotEmpty(PathBuf),
    /// The directory does not contain a run.
    #[error("{} is not a run directory: it has no run.json", .0.display())]
    NotARun(PathBuf),
    /// Another process is executing the run.
    #[error("another process is executing the run in {}; wait for it to finish, or stop it", .0.display())]
    Locked(PathBuf),
    /// A review decision was given to a run that is not waiting for one.
    #[error("the run is not waiting for a review; omit --reviewed")]
    NotAwaitingReview,
    /// The recording lacks a call that the replay makes.
    #[error("cannot replay the run, because its recording is incomplete: {0}")]
    IncompleteRecording(String),
    /// A file of the run cannot be parsed.
    #[error("{} is invalid: {problem}", path.display())]
    InvalidFile {
        /// Path of the file.
        path: PathBuf,
        /// Parse error.
        problem: String,
    },
    /// The run was created by another version of this program, or its configuration was changed.
    #[error("this program cannot resume the run:\n{}", .0.iter().map(|it| format!("- {it}")).collect::<Vec<_>>().join("\n"))]
    Incompatible(Vec<String>),
    /// The configuration is invalid.
    #[error("the configuration is invalid:\n{0}")]
    Config(#[from] ConfigError),
    /// A model cannot be used.
    #[error(transparent)]
    Model(#[from] ModelChoiceError),
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The event log cannot be read or written.
    #[error(transparent)]
    Events(#[from] EventLogError),
    /// The recording of calls cannot be used.
    #[error(transparent)]
    Recording(#[from] llm::RecordingError),
    /// The database of the threads cannot be opened.
    #[error(transparent)]
    Database(#[from] graph_store::OpenError),
    /// Sandboxes cannot be created.
    #[error(transparent)]
    Sandbox(#[from] sandbox_vm::Error),
    /// The sandbox back end does not exist.
    #[error("unknown sandbox `{0}`; use one of: {1}")]
    UnknownBackend(String, String),
    /// A graph does not compile.
    #[error(transparent)]
    Build(#[from] graph_core::BuildError),
    /// The execution of the pipeline failed.
    #[error(transparent)]
    Execution(#[from] graph_core::RunError),
    /// The results of a replay differ from those of the run.
    #[error("the results of the replay differ from those of the run:\n{}", .0.iter().map(|it| format!("- {it}")).collect::<Vec<_>>().join("\n"))]
    ReplayDiffers(Vec<String>),
    /// The request does not fit the run, for example because it refers to a move that the run does not have.
    #[error("{0}")]
    InvalidRequest(String),
    /// This program failed. The request is not the cause.
    #[error("internal error: {0}")]
    Internal(String),
    /// A setting cannot be changed.
    #[error("--set {setting}: {problem}")]
    Setting {
        /// Setting that was to be changed.
        setting: String,
        /// Reason why it cannot be changed.
        problem: String,
    },
}

impl From<LockError> for RunError {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Held(dir) => Self::Locked(dir),
            LockError::File(error) => Self::File(error),
        }
    }
}
