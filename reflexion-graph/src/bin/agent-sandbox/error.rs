//! Errors and exit codes of commands.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

use app_support::{files::FileError, run_id::RandomError};
use reflexion_graph::{
    bench::BenchError, executor::ExecutorError, language::LANGUAGES, models::ModelError,
    run::RunError, wheels::WheelError,
};

use crate::args::API_KEY;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandStatus {
    Done,
    Failed,
    UsageError,
    NotSolved,
    Interrupted,
}

impl From<CommandStatus> for ExitCode {
    fn from(status: CommandStatus) -> Self {
        Self::from(match status {
            CommandStatus::Done => 0,
            CommandStatus::Failed => 1,
            CommandStatus::UsageError => 2,
            CommandStatus::NotSolved => 3,
            CommandStatus::Interrupted => 130,
        })
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{}: {error}", path.display())]
    Content { path: PathBuf, error: String },
    #[error(
        "line {0} of .env is not of the form NAME=value on one line with closed quotes; correct or remove it"
    )]
    DotEnv(usize),
    #[error(
        "line {line} of .env sets {address}, so {key} from the environment would be sent to that address; if you trust \
         the address, set {address} in the environment too, otherwise remove the line"
    )]
    KeyToFileAddress { line: usize, address: &'static str, key: &'static str },
    #[error("unknown language `{0}`; available: {known}", known = LANGUAGES.join(", "))]
    NoLanguage(String),
    #[error("cannot restart the program with the variables from .env: {0}")]
    Restart(std::io::Error),
    #[error(
        "session `{}` does not exist, neither as a directory nor under runs/; pass the directory printed by \
         `agent-sandbox run`", .0.display()
    )]
    NoSuchRun(PathBuf),
    #[error(
        "no problem to try: the list is empty, or --only matches none of its ids; correct --problems or --only"
    )]
    NoProblems,
    #[error(transparent)]
    Run(#[from] RunError),
    #[error("{error}\nThe session is saved. Fix the cause, then run: agent-sandbox resume {}", dir.display())]
    Stopped { dir: PathBuf, error: RunError },
    #[error(transparent)]
    ModelChoice(#[from] ModelError),
    #[error(transparent)]
    Executor(#[from] ExecutorError),
    #[error(transparent)]
    Wheels(#[from] WheelError),
    #[error(transparent)]
    Graph(#[from] graph_core::BuildError),
    #[error(transparent)]
    Bench(#[from] BenchError),
    #[error(transparent)]
    Random(#[from] RandomError),
    #[error(transparent)]
    Serve(#[from] reflexion_graph::serve::ServeError),
    #[error("cannot listen on {address}: {source}; choose another address with --address")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error(
        "{0} is reachable from other machines, so an API key is required: set {API_KEY} to a long random key, or pass \
         its hash with --key-hash"
    )]
    NoKey(SocketAddr),
    #[error("the key in {API_KEY} is invalid: {0}")]
    Key(#[from] graph_server::http::ShortKeyError),
    #[error("cannot start the async runtime: {0}")]
    Runtime(std::io::Error),
}

impl CliError {
    /// Returns the exit status, which distinguishes usage errors from failures.
    pub(crate) fn status(&self) -> CommandStatus {
        match self {
            Self::DotEnv(_)
            | Self::KeyToFileAddress { .. }
            | Self::NoLanguage(_)
            | Self::NoSuchRun(_)
            | Self::NoProblems
            | Self::NoKey(_)
            | Self::Key(_)
            | Self::Content { .. }
            | Self::ModelChoice(_)
            | Self::Wheels(_)
            | Self::Bench(BenchError::Job { .. })
            | Self::Run(
                RunError::Job(_)
                | RunError::NotEmpty(_)
                | RunError::NoRun(_)
                | RunError::NoAttempt { .. },
            ) => CommandStatus::UsageError,
            _ => CommandStatus::Failed,
        }
    }
}
