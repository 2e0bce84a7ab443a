//! Finds the directories of runs.

use std::path::{Path, PathBuf};

use app_support::run_path;

use crate::error::CliError;

/// Returns the directory of a run. `run` is the path of this directory or, for a run in `runs/`, the id of the run.
pub(crate) fn find_dir(run: &Path) -> Result<PathBuf, CliError> {
    run_path::find(run).ok_or_else(|| CliError::UnknownRun(run.to_owned()))
}
