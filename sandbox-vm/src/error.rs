//! Error types of this crate.

use std::{io, path::PathBuf, time::Duration};

use crate::{
    limits::{ExceededLimit, TOO_MANY_OPEN_FILES},
    protocol::{
        ProtocolError,
        message::{Fault, FaultCode},
    },
    report::IsolationLevel,
};

/// The error returned when a sandbox operation fails.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The sandbox cannot be created with this spec.
    #[error("cannot create sandbox `{name}`: {problem}")]
    BadSpec {
        /// Name of the sandbox.
        name: String,
        /// Description of the problem.
        problem: &'static str,
    },
    /// No back end isolates guests as strongly as required on this machine.
    #[error(
        "isolation `{required}` is required, but no back end provides it on this machine: {problems}; run `sandbox-vm \
         doctor` to see what to install"
    )]
    NoIsolation {
        /// The required level.
        required: IsolationLevel,
        /// Why each back end cannot be used.
        problems: String,
    },
    /// The guest did not start.
    #[error("back end `{backend}` cannot start the guest: {problem}")]
    Start {
        /// Name of the back end.
        backend: &'static str,
        /// Description of the failure.
        problem: String,
    },
    /// The back end does not support the operation.
    #[error("back end `{backend}` cannot {operation}; see its capability report")]
    Unsupported {
        /// Name of the back end.
        backend: &'static str,
        /// The requested operation, as a verb phrase.
        operation: &'static str,
    },
    /// A snapshot was requested while another operation is in progress.
    #[error(
        "cannot take a snapshot of sandbox `{name}`: it is busy; wait until no program or graph runs in it"
    )]
    Busy {
        /// Name of the sandbox.
        name: String,
    },
    /// The sandbox is paused.
    #[error("sandbox `{name}` is paused; resume it first")]
    Paused {
        /// Name of the sandbox.
        name: String,
    },
    /// No guest can be started from the snapshot.
    #[error("cannot restore the snapshot in `{}`: {problem}; make a new one", .dir.display())]
    Snapshot {
        /// Directory of the snapshot.
        dir: PathBuf,
        /// Reason why the snapshot cannot be used.
        problem: String,
    },
    /// The sandbox has terminated.
    #[error("sandbox `{name}` has terminated: {reason}")]
    Terminated {
        /// Name of the sandbox.
        name: String,
        /// Why it terminated.
        reason: TerminationReason,
    },
    /// The guest did not reply in time, so the sandbox was removed.
    #[error("sandbox `{name}` did not reply within {after:?} and was removed")]
    Timeout {
        /// Name of the sandbox.
        name: String,
        /// The time limit that passed.
        after: Duration,
    },
    /// The guest refused a command or failed to execute it, or the host refused to send it.
    #[error("sandbox `{name}`: {}", .fault.message)]
    Guest {
        /// Name of the sandbox.
        name: String,
        /// The failure, with its kind and message.
        fault: Fault,
    },
    /// A graph that ran in a guest failed.
    #[error("the graph failed in the sandbox: {error}")]
    Graph {
        /// The error message.
        error: String,
        /// Whether the failure is permanent, so that a retry cannot succeed.
        terminal: bool,
    },
    /// A host file or directory could not be accessed.
    #[error("{context}: {source}")]
    Io {
        /// The failed operation and the path, as the start of the message.
        context: String,
        /// The cause.
        source: io::Error,
    },
}

graph_core::readable_debug!(Error);

impl Error {
    /// Returns the limit that terminated the sandbox or made the graph fail, if one did. The error of a graph names
    /// only the limit on open files.
    pub fn exceeded_limit(&self) -> Option<ExceededLimit> {
        match self {
            Self::Terminated { reason: TerminationReason::Limit(limit), .. } => Some(*limit),
            Self::Timeout { .. } => Some(ExceededLimit::Wall),
            Self::Graph { error, .. } if error.contains(TOO_MANY_OPEN_FILES) => {
                Some(ExceededLimit::OpenFiles)
            }
            _ => None,
        }
    }

    /// Returns whether a requested file, program or graph does not exist in the guest.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Guest { fault, .. } if fault.code == FaultCode::NotFound)
    }

    pub(crate) fn io(context: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let context = context.into();
        |source| Self::Io { context, source }
    }
}

/// Why a sandbox terminated.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TerminationReason {
    /// The sandbox was deleted.
    #[error("it was deleted")]
    Deleted,
    /// The sandbox exceeded a limit.
    #[error("it exceeded its limit on {0}")]
    Limit(ExceededLimit),
    /// The guest violated the protocol.
    #[error("the guest violated the protocol: {0}")]
    ProtocolViolation(ProtocolError),
    /// The guest exited on its own. The field holds the guest's last diagnostic output, which may be empty.
    #[error("the guest exited unexpectedly{}", diagnostics(.0))]
    Exited(String),
}

graph_core::readable_debug!(TerminationReason);

fn diagnostics(output: &str) -> String {
    if output.is_empty() { String::new() } else { format!("; its last output: {output}") }
}
