//! Why a run cannot be made, opened or finished.

use std::{fmt, io, path::PathBuf};

use super::Run;
use crate::{config::ConfigError, event::EventLogError, models::ChoiceError};

/// Why a run cannot be made, opened or finished.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunProblem {
    /// A new run's folder holds something.
    #[error("{} is not empty; choose another folder with --out, or `consulting resume` it", .0.display())]
    NotEmpty(PathBuf),
    /// There is no run in the folder.
    #[error("{} holds no run: it has no run.json", .0.display())]
    NoRun(PathBuf),
    /// Somebody else is at work on the run.
    #[error("another process is at work on the run in {}; wait until it is done, or stop it", .0.display())]
    Busy(PathBuf),
    /// A review was given to a run that does not wait for one.
    #[error("the run does not wait for a review; leave --reviewed out")]
    NothingToReview,
    /// A replay asked something that the run had never asked.
    #[error("the run cannot be replayed, because its recording is not whole: {0}")]
    NotRecorded(String),
    /// A run's description cannot be read.
    #[error("{}: {problem}", path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The run was made by another program or with another configuration.
    #[error("this run cannot go on here:\n{}", .0.iter().map(|it| format!("- {it}")).collect::<Vec<_>>().join("\n"))]
    Differs(Vec<String>),
    /// The configuration cannot be used.
    #[error("the configuration cannot be used:\n{0}")]
    Config(#[from] ConfigError),
    /// Nobody can speak.
    #[error(transparent)]
    Models(#[from] ChoiceError),
    /// A file cannot be used.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The list of events cannot be kept.
    #[error(transparent)]
    Events(#[from] EventLogError),
    /// The recording of calls cannot be used.
    #[error(transparent)]
    Recording(#[from] llm::RecordingError),
    /// The threads cannot be opened.
    #[error(transparent)]
    Threads(#[from] graph_store::OpenError),
    /// Sandboxes cannot be made.
    #[error(transparent)]
    Sandboxes(#[from] sandbox_vm::Error),
    /// A back end is not known.
    #[error("there is no sandbox `{0}`; there are: {1}")]
    NoBackend(String, String),
    /// The graphs do not compile.
    #[error(transparent)]
    Build(#[from] graph_core::BuildError),
    /// The run failed.
    #[error(transparent)]
    Run(#[from] graph_core::RunError),
    /// A replay came to something else.
    #[error("the replay differs from the run:\n{}", .0.iter().map(|it| format!("- {it}")).collect::<Vec<_>>().join("\n"))]
    Diverged(Vec<String>),
    /// There is no such place in the run.
    #[error("{0}")]
    NoPlace(String),
    /// A setting cannot be changed.
    #[error("--set {setting}: {problem}")]
    Setting {
        /// The setting.
        setting: String,
        /// Why not.
        problem: String,
    },
}

impl Run {
    /// An error in words for everybody who may read the run's events: where its files lie on this host is nobody's
    /// business there, so the folders go by what they are.
    pub(crate) fn shown(&self, error: &impl fmt::Display) -> String {
        let data = self.manifest.given.data.from.folder();
        let folders = [(Some(self.folder()), "the run's folder"), (data, "the data folder")];
        let mut text = error.to_string();
        for (folder, name) in folders.into_iter().filter_map(|it| Some((it.0?, it.1))) {
            // Errors name a folder as it was given, or as the system knows it.
            let known = folder.canonicalize().ok();
            for path in [Some(folder.to_owned()), known].into_iter().flatten() {
                if path.is_absolute() {
                    text = text.replace(&*path.to_string_lossy(), name);
                }
            }
        }
        text
    }
}
