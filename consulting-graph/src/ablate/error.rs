//! Errors of ablations.

use std::path::PathBuf;

use app_support::{files::FileError, lock::LockError};

use super::arm::Arm;
use crate::{data::DataError, run::RunError};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AblationError {
    #[error(
        "the data of {0} has too few figures to make moves from: it needs the cash balance and six other figures; \
         choose another ticker, such as NVDA"
    )]
    TooFewFigures(String),
    #[error("an ablation needs at least 2 pairs of moves, but has {0}; use --moves 2 or more")]
    TooFewPairs(usize),
    #[error("arm `{0}` uses the debates of arm `debate-3`; add debate-3 to --arms")]
    MissingDebate(Arm),
    #[error("comparisons need the arm `one-call`; add one-call to --arms")]
    MissingReference,
    #[error(
        "arm `mixed` needs a second model for the critic; name it with --critic-model, or omit mixed from --arms"
    )]
    MissingCriticModel,
    #[error(
        "--critic-model is used only by the arm `mixed`, and not by scripted critics; omit it, or change --arms or --provider"
    )]
    UnusedCriticModel,
    #[error(
        "--critics selects scripted critics, but the provider is {0}; omit it, or add --provider scripted"
    )]
    UnusedCritics(String),
    #[error(
        "this ablation makes about {calls} calls to provider {provider}; limit the spending with --max-cost or \
         --max-tokens, or reduce it with --moves, --repeats and --arms"
    )]
    Unlimited { provider: String, calls: u64 },
    #[error("directory {} is not empty; choose another directory with --out, or resume the ablation in it with --resume", .0.display())]
    DirNotEmpty(PathBuf),
    #[error("{} is not the directory of an ablation: it has no settings.json; name a directory that `consulting ablate` wrote", .0.display())]
    NotAnAblation(PathBuf),
    #[error("another process is executing the ablation in {}; wait for it to finish, or stop it", .0.display())]
    Locked(PathBuf),
    #[error("{} is invalid: {problem}; restore it, or start a new ablation", path.display())]
    InvalidFile { path: PathBuf, problem: String },
    #[error(
        "the ablation was created with version {before} of this program, but this is version {after}; use version \
         {before}, or start a new ablation"
    )]
    OtherVersion { before: String, after: &'static str },
    #[error("no pair of moves was judged in all arms, so there is nothing to compare; reason: {0}")]
    NoResults(String),
    #[error(transparent)]
    Data(#[from] DataError),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    File(#[from] FileError),
}

impl AblationError {
    /// Returns whether the user can fix the error with other arguments.
    pub fn is_usage(&self) -> bool {
        !matches!(
            self,
            Self::Data(_) | Self::Run(_) | Self::File(_) | Self::Locked(_) | Self::NoResults(_)
        )
    }
}

impl From<LockError> for AblationError {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Held(dir) => Self::Locked(dir),
            LockError::File(error) => Self::File(error),
        }
    }
}

/// Converts errors that a run of the pipeline can also have.
macro_rules! from_run_errors {
    ($($error:ty),*) => {$(
        impl From<$error> for AblationError {
            fn from(error: $error) -> Self {
                Self::Run(error.into())
            }
        }
    )*};
}

from_run_errors!(
    crate::config::ConfigError,
    crate::models::ModelChoiceError,
    graph_core::BuildError,
    graph_core::RunError,
    graph_store::OpenError,
    llm::RecordingError
);
