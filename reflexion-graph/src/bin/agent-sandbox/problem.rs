//! Why a command failed, and what the shell is told.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
};

use reflexion_graph::{
    bench::BenchProblem, language::LANGUAGES, models::ChoiceError, run::RunProblem,
    wheels::WheelError, workshop::WorkshopError,
};

use crate::args::API_KEY;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Done,
    Failed,
    Misused,
    NotSolved,
    Interrupted,
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> Self {
        Self::from(match ending {
            Ending::Done => 0,
            Ending::Failed => 1,
            Ending::Misused => 2,
            Ending::NotSolved => 3,
            Ending::Interrupted => 130,
        })
    }
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    #[error("{} cannot be used: {source}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("{}: {problem}", path.display())]
    Content { path: PathBuf, problem: String },
    #[error(
        "line {0} of .env is not of the form NAME=value, in one line and with its quotes closed; mend it, or take it out"
    )]
    DotEnv(usize),
    #[error(
        "line {line} of .env sets {address}, and {key}, which is not from that file, would be sent there; if you trust \
         the address, set {address} outside of the file too, otherwise take the line out"
    )]
    Diverted { line: usize, address: &'static str, key: &'static str },
    #[error("there is no language `{0}`; there are: {known}", known = LANGUAGES.join(", "))]
    NoLanguage(String),
    #[error("the program cannot be started again with what .env holds: {0}")]
    Environment(std::io::Error),
    #[error(
        "there is no session `{}`, neither as a folder nor under runs/; give the folder that `agent-sandbox run` named \
         at its end", .0.display()
    )]
    NoSuchRun(PathBuf),
    #[error("there are no problems to try; --only leaves none")]
    NoProblems,
    #[error(transparent)]
    Run(#[from] RunProblem),
    #[error("{problem}\nThe session is kept. When that is mended, go on with: agent-sandbox resume {}", folder.display())]
    Stopped { folder: PathBuf, problem: RunProblem },
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    #[error(transparent)]
    Workshop(#[from] WorkshopError),
    #[error(transparent)]
    Wheels(#[from] WheelError),
    #[error(transparent)]
    Graph(#[from] graph_core::BuildError),
    #[error(transparent)]
    Bench(#[from] BenchProblem),
    #[error("no chance can be had from the operating system: {0}")]
    Chance(#[from] getrandom::Error),
    #[error(transparent)]
    Serve(#[from] reflexion_graph::serve::ServeProblem),
    #[error("cannot listen at {address}: {source}; give another address with --address")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error(
        "{0} can be reached by others, so a key is needed: put a long random one into the variable {API_KEY}, or give \
         its hash with --key-hash"
    )]
    NoKey(SocketAddr),
    #[error("the key in {API_KEY} cannot be used: {0}")]
    Key(#[from] graph_server::http::ShortKey),
    #[error("the runtime cannot be started: {0}")]
    Runtime(std::io::Error),
}

impl Problem {
    /// What the shell is told: what was typed wrongly is another thing than what failed.
    pub(crate) fn ending(&self) -> Ending {
        match self {
            Self::DotEnv(_)
            | Self::Diverted { .. }
            | Self::NoLanguage(_)
            | Self::NoSuchRun(_)
            | Self::NoProblems
            | Self::NoKey(_)
            | Self::Key(_)
            | Self::Content { .. }
            | Self::Choice(_)
            | Self::Wheels(_)
            | Self::Bench(BenchProblem::Job { .. })
            | Self::Run(
                RunProblem::Job(_)
                | RunProblem::NotEmpty(_)
                | RunProblem::NoRun(_)
                | RunProblem::NoAttempt { .. },
            ) => Ending::Misused,
            _ => Ending::Failed,
        }
    }
}

/// Says which file could not be used.
pub(crate) fn with(path: &Path) -> impl FnOnce(std::io::Error) -> Problem + '_ {
    |source| Problem::File { path: path.to_owned(), source }
}
