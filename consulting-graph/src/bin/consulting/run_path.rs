//! Finds the directories of runs.

use std::path::{Path, PathBuf};

use crate::error::CliError;

/// Default directory of runs.
const RUNS_DIR: &str = "runs";

/// Returns the default directory of a new run.
pub(crate) fn default_dir(run_id: &str) -> PathBuf {
    Path::new(RUNS_DIR).join(run_id)
}

/// Returns the directory of a run, given its directory or its id below `runs/`.
pub(crate) fn find(run: &Path) -> Result<PathBuf, CliError> {
    let candidates = [run.to_owned(), Path::new(RUNS_DIR).join(run)];
    let with_run = candidates.iter().find(|it| it.join("run.json").is_file());
    let existing_dir = || candidates.iter().find(|it| it.is_dir());
    with_run.or_else(existing_dir).cloned().ok_or_else(|| CliError::UnknownRun(run.to_owned()))
}
