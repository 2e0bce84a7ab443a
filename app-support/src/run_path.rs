//! Directories of runs.

use std::path::{Path, PathBuf};

/// Default runs directory: the parent of the directories of all runs.
pub const RUNS_DIR: &str = "runs";

/// Returns the default directory of a new run.
pub fn default_dir(run_id: &str) -> PathBuf {
    Path::new(RUNS_DIR).join(run_id)
}

/// Returns the directory of a run. `run` is either the path of the directory or the id of a run in [`RUNS_DIR`]. If
/// directories exist for both meanings, prefers the one that contains a run. Returns `None` if neither exists.
pub fn find(run: &Path) -> Option<PathBuf> {
    let candidates = [run.to_owned(), Path::new(RUNS_DIR).join(run)];
    let with_run = candidates.iter().find(|it| it.join("run.json").is_file());
    with_run.or_else(|| candidates.iter().find(|it| it.is_dir())).cloned()
}
