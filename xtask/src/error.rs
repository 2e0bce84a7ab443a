//! What can go wrong, and what to do about it.

use std::{fmt, io, path::PathBuf, process::ExitCode};

#[derive(Debug)]
pub(crate) enum Error {
    UnknownCommand(String),
    UnknownModel { name: String, known: Vec<&'static str> },
    Arguments { command: String, args: Vec<String> },
    NotByCargo,
    Failed { command: String },
    Start { command: String, source: io::Error },
    File { path: PathBuf, source: io::Error },
    NoValgrind,
    NoBaseline { path: PathBuf },
    BaselineLine { number: usize, line: String },
    NoCount { path: PathBuf },
    NoScenarios,
    Slower { scenarios: Vec<String> },
}

impl Error {
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::UnknownCommand(_) | Self::UnknownModel { .. } | Self::Arguments { .. } => {
                ExitCode::from(2)
            }
            _ => ExitCode::FAILURE,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownCommand(command) => {
                write!(f, "there is no command `{command}`; `cargo xtask help` lists them")
            }
            Self::UnknownModel { name, known } => {
                write!(f, "`{name}` names no one of the models: {}", known.join(", "))
            }
            Self::Arguments { command, args } => {
                let args = args.join(" ");
                write!(
                    f,
                    "`{command}` does not take `{args}`; `cargo xtask help` says what it takes"
                )
            }
            Self::NotByCargo => write!(f, "the workspace is not known; start me by `cargo xtask`"),
            Self::Failed { command } => write!(f, "this command failed:\n    {command}"),
            Self::Start { command, source } => {
                write!(f, "this command could not be started ({source}):\n    {command}")
            }
            Self::File { path, source } => write!(f, "{}: {source}", path.display()),
            Self::NoValgrind => {
                write!(f, "valgrind is not installed; run `apt-get install valgrind`")
            }
            Self::NoBaseline { path } => write!(
                f,
                "{} does not exist; `cargo xtask callgrind --bless` writes it",
                path.display()
            ),
            Self::BaselineLine { number, line } => write!(
                f,
                "line {number} of the baseline is `{line}`, which is not a name and a count; \
                 `cargo xtask callgrind --bless` writes the file anew"
            ),
            Self::NoCount { path } => {
                write!(f, "{} has no instruction count; did valgrind finish?", path.display())
            }
            Self::NoScenarios => write!(f, "`hotpath --list` printed no scenario"),
            Self::Slower { scenarios } => write!(
                f,
                "more than {} percent over the baseline: {}; if that is meant, run \
                 `cargo xtask callgrind --bless` and commit the file",
                crate::callgrind::LIMIT_PERCENT,
                scenarios.join(", ")
            ),
        }
    }
}
