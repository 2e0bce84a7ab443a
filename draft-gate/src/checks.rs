//! Project checks: commands that must succeed on the changed files before the change reaches the workspace.

use std::fmt;

use crate::{contract::Check, error::Error, path::WorkspacePath};

/// Runs the checks of a contract outside the workspace.
pub trait ProjectChecks: fmt::Debug + Send + Sync {
    fn run(&self, check: &Check, files: &[ProjectFile]) -> Result<CheckOutcome, Error>;
}

/// A file of the project as it would be with the change set applied.
#[derive(Clone, Debug, PartialEq)]
pub struct ProjectFile {
    pub path: WorkspacePath,
    pub bytes: Vec<u8>,
    pub is_executable: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CheckOutcome {
    pub passed: bool,
    /// Last part of the check's output.
    pub output: String,
}
