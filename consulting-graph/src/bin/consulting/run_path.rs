//! Finds the directories of runs.

use std::path::{Path, PathBuf};

use app_support::run_path;

use crate::error::CliError;

/// Returns the directory of a run, given its directory or its id below `runs/`.
pub(crate) fn find_dir(run: &Path) -> Result<PathBuf, CliError> {
    run_path::find(run).ok_or_else(|| CliError::UnknownRun(run.to_owned()))
}
