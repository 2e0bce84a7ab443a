//! Project checks: commands that must succeed on the changed files before the change reaches the workspace.

use std::fmt;

use crate::{contract::Check, error::Error, path::WorkspacePath};

/// Runs the checks of a contract outside the workspace.
///
/// ```
/// use draft_gate::{Check, CheckOutcome, Error, Gate, ProjectChecks, ProjectFile};
///
/// /// Refuses projects with files that are not UTF-8.
/// #[derive(Debug)]
/// struct Utf8Check;
///
/// impl ProjectChecks for Utf8Check {
///     fn run(&self, check: &Check, files: &[ProjectFile]) -> Result<CheckOutcome, Error> {
///         let invalid = files.iter().find(|it| std::str::from_utf8(&it.bytes).is_err());
///         let output = invalid.map(|it| format!("{}: {} is not UTF-8", check.name, it.path));
///         Ok(CheckOutcome { passed: invalid.is_none(), output: output.unwrap_or_default() })
///     }
/// }
///
/// # let dir = tempfile::tempdir()?;
/// # let workspace = dir.path();
/// let gate = Gate::open(workspace)?.with_checks(Utf8Check);
/// # let _ = gate;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
