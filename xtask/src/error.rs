//! Errors of the commands.

use std::{fmt, io, path::PathBuf, process::ExitCode};

#[derive(Debug)]
pub(crate) enum Error {
    UnknownCommand(String),
    UnknownModel { name: String, known: Vec<&'static str> },
    Arguments { command: String, args: Vec<String> },
    NotRunByCargo,
    Failed { command: String },
    MissingOutput { command: String, text: String },
    Panicked,
    FailedTests { programs: Vec<String> },
    Start { command: String, source: io::Error },
    File { path: PathBuf, source: io::Error },
    NoValgrind,
    NoBaseline { path: PathBuf },
    BaselineLine { number: usize, line: String },
    NoCount { path: PathBuf },
    NoScenarios,
    Slower { limit_percent: u64, scenarios: Vec<String> },
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
                write!(f, "unknown command `{command}`; run `cargo xtask help` for a list")
            }
            Self::UnknownModel { name, known } => {
                write!(
                    f,
                    "`{name}` does not match exactly one model; known models: {}",
                    known.join(", ")
                )
            }
            Self::Arguments { command, args } => {
                let args = args.join(" ");
                write!(
                    f,
                    "`{command}` does not accept `{args}`; run `cargo xtask help` for its arguments"
                )
            }
            Self::NotRunByCargo => {
                write!(f, "cannot find the workspace root; run this program as `cargo xtask`")
            }
            Self::Failed { command } => write!(f, "command failed:\n    {command}"),
            Self::MissingOutput { command, text } => {
                write!(f, "the output of a command does not contain `{text}`:\n    {command}")
            }
            Self::Panicked => write!(f, "a thread that ran steps panicked; see its message above"),
            Self::FailedTests { programs } => {
                write!(f, "tests failed in:")?;
                programs.iter().try_for_each(|it| write!(f, "\n    {it}"))
            }
            Self::Start { command, source } => {
                write!(f, "cannot start command ({source}):\n    {command}")
            }
            Self::File { path, source } => write!(f, "{}: {source}", path.display()),
            Self::NoValgrind => {
                write!(f, "valgrind is not installed; run `apt-get install valgrind`")
            }
            Self::NoBaseline { path } => write!(
                f,
                "{} does not exist; run `cargo xtask callgrind --bless` to create it",
                path.display()
            ),
            Self::BaselineLine { number, line } => write!(
                f,
                "line {number} of the baseline is `{line}`, expected a name and a count; run \
                 `cargo xtask callgrind --bless` to recreate the file"
            ),
            Self::NoCount { path } => {
                write!(
                    f,
                    "{} contains no instruction count; check that valgrind finished",
                    path.display()
                )
            }
            Self::NoScenarios => write!(f, "`hotpath --list` printed no scenarios"),
            Self::Slower { limit_percent, scenarios } => write!(
                f,
                "the instruction counts of these scenarios exceed the baseline by more than {limit_percent} percent: \
                 {}; if this is intended, run `cargo xtask callgrind --bless` and commit the file",
                scenarios.join(", ")
            ),
        }
    }
}
