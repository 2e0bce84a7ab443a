//! Where runs lie.

use std::path::{Path, PathBuf};

use crate::problem::Problem;

/// The folder of runs that were not put elsewhere.
const RUNS: &str = "runs";

/// The folder of a new run that is not put elsewhere.
pub(crate) fn of(run_id: &str) -> PathBuf {
    Path::new(RUNS).join(run_id)
}

/// The folder of a run that is named by its folder or, under `runs/`, by its id.
pub(crate) fn find(run: &Path) -> Result<PathBuf, Problem> {
    let candidates = [run.to_owned(), Path::new(RUNS).join(run)];
    let with_run = candidates.iter().find(|it| it.join("run.json").is_file());
    let there = || candidates.iter().find(|it| it.is_dir());
    with_run.or_else(there).cloned().ok_or_else(|| Problem::NoSuchRun(run.to_owned()))
}
