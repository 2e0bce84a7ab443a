//! Errors of the executor.

use sandbox_vm::Error;

use super::backend_names::BACKENDS;
use crate::{execution::Status, wheels::WheelError};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecutorError {
    #[error(transparent)]
    Sandbox(#[from] Error),
    #[error(transparent)]
    Wheel(#[from] WheelError),
    #[error("cannot run the program, because the executor is closed")]
    Closed,
    #[error("the self-test of the sandbox failed: a program that only prints `1` {status}: {message}", status = .0.description(), message = .1)]
    Unusable(Status, String),
    #[error(
        "the sandbox back end {0} cannot mount packages; choose another one with --sandbox, or omit --wheels"
    )]
    NoPackages(&'static str),
    #[error("unknown sandbox back end `{0}`; available: {known}", known = BACKENDS.join(", "))]
    NoBackend(String),
}
