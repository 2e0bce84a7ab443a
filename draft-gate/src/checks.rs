//! Project checks: commands that must succeed on the changed files before they reach the workspace.

use std::fmt;

use crate::{contract::Check, error::Error, path::WorkspacePath};

/// Runs the checks of a contract outside of the workspace.
pub trait ProjectChecks: fmt::Debug + Send + Sync {
    /// Runs one check on the given files.
    fn run(&self, check: &Check, files: &[ProjectFile]) -> Result<CheckOutcome, Error>;
}

/// A file of the project with the change set applied.
#[derive(Clone, Debug, PartialEq)]
pub struct ProjectFile {
    /// Path of the file.
    pub path: WorkspacePath,
    /// Content of the file.
    pub bytes: Vec<u8>,
    /// Whether the file is executable.
    pub is_executable: bool,
}

/// Result of a check.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckOutcome {
    /// Whether the check succeeded.
    pub passed: bool,
    /// Last part of its output.
    pub output: String,
}
