//! Errors of the executor.

use app_support::run_id::RandomError;
use sandbox_vm::Error;

use super::backend_names::BACKENDS;
use crate::{execution::Status, wheels::WheelError};

/// The error returned when a program cannot be run for a reason that is not in the program itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecutorError {
    /// No sandbox could be started.
    #[error(transparent)]
    Sandbox(#[from] Error),
    /// A package file is missing or invalid.
    #[error(transparent)]
    Wheel(#[from] WheelError),
    /// The operating system provided no random bytes.
    #[error(transparent)]
    Random(#[from] RandomError),
    /// The executor has been closed.
    #[error("the executor is closed; it runs no more programs")]
    Closed,
    /// The self-test of a sandbox failed. The self-test is a program that only prints `1`.
    #[error("the self-test of the sandbox failed: a program that only prints `1` {status}: {message}", status = .0.description(), message = .1)]
    Unusable(Status, String),
    /// The back end cannot mount packages into its sandboxes.
    #[error(
        "the sandbox back end {0} cannot mount packages; choose another one with --sandbox, or omit --wheels"
    )]
    NoPackages(&'static str),
    /// The back end is unknown.
    #[error("unknown sandbox back end `{0}`; available: {known}", known = BACKENDS.join(", "))]
    NoBackend(String),
}
