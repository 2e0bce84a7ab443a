//! Errors and exit statuses of commands.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

use app_support::{event_log::EventLogError, files::FileError, run_id::RandomError};
use consulting_graph::{
    ablate::AblationError, config::ConfigError, data::TickerError, run::RunError,
};

use crate::args::API_KEY;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitStatus {
    Success,
    RunnerError,
    UsageError,
    AwaitsReview,
    Incomplete,
    Interrupted,
}

impl From<ExitStatus> for ExitCode {
    fn from(exit_status: ExitStatus) -> Self {
        Self::from(match exit_status {
            ExitStatus::Success => 0,
            ExitStatus::RunnerError => 1,
            ExitStatus::UsageError => 2,
            ExitStatus::AwaitsReview => 3,
            ExitStatus::Incomplete => 4,
            ExitStatus::Interrupted => 130,
        })
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    #[error("TICKER: {0}")]
    Ticker(#[from] TickerError),
    #[error("--contact is only used with --data edgar; omit it, or add --data edgar")]
    UnusedContact,
    #[error(
        "--data {0} needs a directory to read; set it with --data-dir, or download SEC filings with --data edgar \
         --contact"
    )]
    MissingDataDir(&'static str),
    #[error(
        "--data {0} does not read a directory; omit --data-dir, or use --data edgar or --data dir"
    )]
    UnusedDataDir(&'static str),
    #[error(
        "--isolation off runs debates in this process, which conflicts with --sandbox {0}; omit one of them"
    )]
    ConflictingSandbox(String),
    #[error("run `{}` does not exist: there is neither a directory with this path nor a run with this id in runs/", .0.display())]
    UnknownRun(PathBuf),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{} is invalid: {problem}", path.display())]
    InvalidFile { path: PathBuf, problem: String },
    #[error("the configuration {} is invalid:\n{problem}", path.display())]
    Config { path: PathBuf, problem: ConfigError },
    #[error(transparent)]
    Run(#[from] RunError),
    #[error("{problem}\nThe run was saved. Fix the cause, then run: {resume}")]
    Stopped { resume: String, problem: RunError },
    #[error(transparent)]
    Diff(#[from] consulting_graph::diff::DiffError),
    #[error("the run is not waiting for a review; omit --reviewed")]
    NotAwaitingReview,
    #[error(
        "all scores of the run could be read; to score the moves again, fork the run at a move"
    )]
    NothingToRescore,
    #[error(transparent)]
    Serve(#[from] consulting_graph::serve::ServeError),
    #[error("--contact: {0}")]
    Contact(#[from] consulting_graph::data::edgar::EdgarError),
    #[error("cannot listen on {address}: {source}; choose another address with --address")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error(
        "other machines can reach {0}, so an API key is required; set the environment variable {API_KEY} to a long \
         random key, or pass its hash with --key-hash"
    )]
    MissingKey(SocketAddr),
    #[error("the API key in {API_KEY} is invalid: {0}")]
    InvalidKey(#[from] graph_server::http::ShortKeyError),
    #[error("cannot start the async runtime: {0}")]
    Runtime(std::io::Error),
    #[error(transparent)]
    Random(#[from] RandomError),
    #[error(transparent)]
    Graph(#[from] graph_core::BuildError),
    #[error(transparent)]
    Sandbox(#[from] sandbox_vm::Error),
    #[error(transparent)]
    Events(#[from] EventLogError),
    #[error(transparent)]
    Ablation(AblationError),
    #[cfg(feature = "cluster")]
    #[error(
        "the URL of the {server} is missing; pass it with {option} URL, or set the environment variable {variable}"
    )]
    MissingUrl { server: &'static str, option: &'static str, variable: &'static str },
}

impl CliError {
    /// Returns the exit status, which distinguishes usage errors from other failures.
    pub(crate) fn exit_status(&self) -> ExitStatus {
        match self {
            Self::Ablation(error) if error.is_usage() => ExitStatus::UsageError,
            #[cfg(feature = "cluster")]
            Self::MissingUrl { .. } => ExitStatus::UsageError,
            Self::Ticker(_)
            | Self::MissingDataDir(_)
            | Self::UnusedDataDir(_)
            | Self::UnusedContact
            | Self::ConflictingSandbox(_)
            | Self::UnknownRun(_)
            | Self::NotAwaitingReview
            | Self::NothingToRescore
            | Self::Contact(_)
            | Self::Config { .. }
            | Self::MissingKey(_)
            | Self::InvalidKey(_)
            | Self::Run(
                RunError::Config(_)
                | RunError::Model(_)
                | RunError::DirNotEmpty(_)
                | RunError::NotARun(_)
                | RunError::InvalidRequest(_)
                | RunError::Setting { .. },
            ) => ExitStatus::UsageError,
            _ => ExitStatus::RunnerError,
        }
    }
}
