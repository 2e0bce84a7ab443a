//! Checks of the project: commands that have to succeed on the changed files before they reach the workspace.

use std::fmt;

use crate::{contract::Check, error::Error, path::WorkspacePath};

/// Runs the checks that a contract asks for, away from the workspace.
pub trait ProjectChecks: fmt::Debug + Send + Sync {
    /// Runs one check on these files, and tells what it said.
    fn run(&self, check: &Check, files: &[ProjectFile]) -> Result<CheckOutcome, Error>;
}

/// A file as it would be if the change set were accepted.
#[derive(Clone, Debug, PartialEq)]
pub struct ProjectFile {
    /// Where.
    pub path: WorkspacePath,
    /// What is in it.
    pub bytes: Vec<u8>,
    /// Whether it can be run.
    pub is_executable: bool,
}

/// What a check came to.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckOutcome {
    /// Whether it succeeded.
    pub is_passed: bool,
    /// The end of what it printed.
    pub output: String,
}
