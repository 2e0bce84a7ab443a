//! Why a command failed, and what the shell is told.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
};

use consulting_graph::{config::ConfigError, data::TickerError, run::RunProblem};

use crate::args::API_KEY;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Done,
    Failed,
    Misused,
    AwaitsReview,
    Unscored,
    Interrupted,
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> Self {
        Self::from(match ending {
            Ending::Done => 0,
            Ending::Failed => 1,
            Ending::Misused => 2,
            Ending::AwaitsReview => 3,
            Ending::Unscored => 4,
            Ending::Interrupted => 130,
        })
    }
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    #[error("TICKER: {0}")]
    Ticker(#[from] TickerError),
    #[error(
        "--contact is for --data edgar, which alone asks anybody; leave it out, or choose that"
    )]
    NeedlessContact,
    #[error(
        "--data {0} needs the folder to read from; give it with --data-dir (edgar can also fetch: see --contact)"
    )]
    NoDataDir(&'static str),
    #[error(
        "--data synthetic reads no folder; leave --data-dir out, or choose --data edgar or dir"
    )]
    NeedlessDataDir,
    #[error(
        "--isolation off runs debates in this process, and --sandbox {0} elsewhere; leave one of them out"
    )]
    NeedlessSandbox(String),
    #[error("there is no run `{}`, neither as a folder nor under runs/", .0.display())]
    NoSuchRun(PathBuf),
    #[error("{} cannot be used: {source}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("{}: {problem}", path.display())]
    Content { path: PathBuf, problem: String },
    #[error("{} cannot be used:\n{problem}", path.display())]
    Config { path: PathBuf, problem: ConfigError },
    #[error(transparent)]
    Run(#[from] RunProblem),
    #[error("{problem}\nThe run is kept. When that is mended, go on with: consulting resume {}", folder.display())]
    Stopped { folder: PathBuf, problem: RunProblem },
    #[error(transparent)]
    Diff(#[from] consulting_graph::diff::DiffError),
    #[error("the run does not wait for a review; leave --reviewed out")]
    NothingToReview,
    #[error(transparent)]
    Serve(#[from] consulting_graph::serve::ServeProblem),
    #[error("--contact: {0}")]
    Contact(#[from] consulting_graph::data::edgar::EdgarError),
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
    #[error(transparent)]
    Chance(#[from] consulting_graph::run::new::NoChance),
    #[error(transparent)]
    Graph(#[from] graph_core::BuildError),
    #[error(transparent)]
    Sandboxes(#[from] sandbox_vm::Error),
    #[error(transparent)]
    Events(#[from] consulting_graph::event::EventLogError),
}

impl Problem {
    /// What the shell is told: what was typed wrongly is another thing than what failed.
    pub(crate) fn ending(&self) -> Ending {
        match self {
            Self::Ticker(_)
            | Self::NoDataDir(_)
            | Self::NeedlessDataDir
            | Self::NeedlessContact
            | Self::NeedlessSandbox(_)
            | Self::NoSuchRun(_)
            | Self::NothingToReview
            | Self::Contact(_)
            | Self::Config { .. }
            | Self::NoKey(_)
            | Self::Key(_)
            | Self::Run(
                RunProblem::Config(_)
                | RunProblem::Models(_)
                | RunProblem::NotEmpty(_)
                | RunProblem::NoRun(_)
                | RunProblem::NoPlace(_)
                | RunProblem::Setting { .. },
            ) => Ending::Misused,
            _ => Ending::Failed,
        }
    }
}

/// Says which file could not be used.
pub(crate) fn with(path: &Path) -> impl FnOnce(std::io::Error) -> Problem + '_ {
    |source| Problem::File { path: path.to_owned(), source }
}
