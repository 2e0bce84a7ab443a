//! What can go wrong with a sandbox.

use std::{io, path::PathBuf, time::Duration};

use crate::{
    limits::ExceededLimit,
    protocol::{
        ProtocolError,
        message::{Fault, FaultCode},
    },
};

/// Why a sandbox could not do what was asked of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A sandbox that cannot be made.
    #[error("sandbox `{name}` cannot be made: {problem}")]
    BadSpec {
        /// Its name.
        name: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// No back end of this machine isolates, and isolation is required.
    #[error(
        "isolation is required and no back end can give it here: {0}; `sandbox-vm doctor` says what to install"
    )]
    NoIsolation(String),
    /// A guest that did not start.
    #[error("back end {backend} could not start the guest: {problem}")]
    Start {
        /// The back end.
        backend: &'static str,
        /// What went wrong.
        problem: String,
    },
    /// Something that the back end cannot do.
    #[error("back end {backend} cannot {operation}; its capability report says what it can")]
    Unsupported {
        /// The back end.
        backend: &'static str,
        /// What was asked.
        operation: &'static str,
    },
    /// Something that is done only while nothing else is under way in the sandbox.
    #[error(
        "sandbox `{name}` is busy: a snapshot is taken while no program and no graph runs in it"
    )]
    Busy {
        /// Its name.
        name: String,
    },
    /// Something that a paused sandbox cannot do.
    #[error("sandbox `{name}` is paused; resume it first")]
    Paused {
        /// Its name.
        name: String,
    },
    /// A snapshot that no guest can be started from.
    #[error("the snapshot in {} cannot be restored: {problem}; make a new one", .dir.display())]
    Snapshot {
        /// Where it is.
        dir: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The sandbox is no more.
    #[error("sandbox `{name}` is gone: {reason}")]
    Terminated {
        /// Its name.
        name: String,
        /// Why.
        reason: TerminationReason,
    },
    /// The guest did not answer in time; it was removed.
    #[error("sandbox `{name}` did not answer within {after:?} and was removed")]
    Timeout {
        /// Its name.
        name: String,
        /// How long it had.
        after: Duration,
    },
    /// The guest refused, or failed to do, what was asked.
    #[error("sandbox `{name}`: {}", .fault.message)]
    Guest {
        /// Its name.
        name: String,
        /// What it said.
        fault: Fault,
    },
    /// A graph that ran in a guest failed.
    #[error("the graph failed in the sandbox: {error}")]
    Graph {
        /// The error in words.
        error: String,
        /// Whether running it again cannot help.
        terminal: bool,
    },
    /// A file or a folder of the host could not be used.
    #[error("{context}: {source}")]
    Io {
        /// What was to be done.
        context: String,
        /// Why it failed.
        source: io::Error,
    },
}

impl Error {
    /// The limit that ended the sandbox, if one did.
    pub fn exceeded_limit(&self) -> Option<ExceededLimit> {
        match self {
            Self::Terminated { reason: TerminationReason::Limit(limit), .. } => Some(*limit),
            Self::Timeout { .. } => Some(ExceededLimit::Wall),
            _ => None,
        }
    }

    /// Whether a file, program or graph was asked for that does not exist in the guest.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Guest { fault, .. } if fault.code == FaultCode::NotFound)
    }

    pub(crate) fn io(context: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let context = context.into();
        |source| Self::Io { context, source }
    }
}

/// Why a sandbox is no more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TerminationReason {
    /// Somebody deleted it.
    #[error("it was deleted")]
    Deleted,
    /// It reached a limit.
    #[error("it reached its limit of {0}")]
    Limit(ExceededLimit),
    /// It did not keep to the protocol.
    #[error("it does not keep to the protocol: {0}")]
    ProtocolViolation(ProtocolError),
    /// It ended by itself.
    #[error("it ended by itself{}", diagnostics(.0))]
    Exited(String),
}

fn diagnostics(output: &str) -> String {
    if output.is_empty() { String::new() } else { format!("; its last words: {output}") }
}
