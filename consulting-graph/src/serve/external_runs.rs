//! Imports results that were produced outside of the server: runs that `consulting run` created in the directory of the
//! server, and runs of the server that `consulting resume` completed. A run counts as complete if its directory has a
//! report.

use std::{
    fs, io,
    path::Path,
    time::{Duration, SystemTime},
};

use graph_server::{NewRun, Registry, RunInfo, run::is_valid_id};
use serde_json::json;

use super::{runner, wire::StoredInput};
use crate::{report::Report, run::Run};

/// Resolution of the times in the registry. Smaller differences between two times are ignored.
const TIME_RESOLUTION: Duration = Duration::from_millis(1);

/// Imports the results of all complete runs in a directory, unless the registry already has them.
pub(super) fn import_external_runs(registry: &Registry, runs_dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(runs_dir)? {
        let dir = entry?.path();
        let id = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if is_valid_id(&id) {
            let known = registry.get(&id).map_err(io::Error::other)?;
            import_external_run(registry, &dir, id, known.as_ref())?;
        }
    }
    Ok(())
}

/// Imports the result of a run if the result is newer than the run's last status change in the registry. Returns
/// whether the result was imported.
pub(super) fn import_external_run(
    registry: &Registry,
    dir: &Path,
    id: String,
    known: Option<&RunInfo>,
) -> io::Result<bool> {
    let modified = |name: &str| fs::metadata(dir.join(name)).and_then(|it| it.modified());
    let Ok(completed) = modified("report.json") else { return Ok(false) };
    let is_current =
        |it: &RunInfo| it.status.is_active() || completed < it.updated_at + TIME_RESOLUTION;
    if known.is_some_and(is_current) {
        return Ok(false);
    }
    let text = fs::read_to_string(dir.join("report.json")).unwrap_or_default();
    let (Ok(run), Ok(report)) = (Run::open_unchecked(dir), serde_json::from_str::<Report>(&text))
    else {
        return Ok(false);
    };
    let manifest = run.manifest();
    let from = manifest.fork_origin.as_ref().map(|it| it.from.run_config.run_id.clone());
    let input = StoredInput { concurrency: 1, from, ..StoredInput::default() };
    let done = NewRun { id, subject: manifest.run_config.ticker.clone(), input: json!(input) };
    let created = modified("run.json").unwrap_or_else(|_| SystemTime::now());
    registry
        .import_complete_run(&done, &runner::stored_outcome(&report), created, completed)
        .map_err(io::Error::other)?;
    Ok(true)
}
