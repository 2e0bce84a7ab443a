//! What others than the server did: runs of `consulting run` in its folder, and its own runs that somebody brought to
//! their end by `consulting resume`. What counts is the report in a run's folder.

use std::{
    fs, io,
    path::Path,
    time::{Duration, SystemTime},
};

use graph_server::{NewRun, Registry, RunInfo, run::is_id};
use serde_json::json;

use super::{runner, wire::Kept};
use crate::{report::Report, run::Run};

/// Times in the list of runs are that exact.
const TICK: Duration = Duration::from_millis(1);

/// Looks at all runs of a folder.
pub(super) fn all(registry: &Registry, runs: &Path) -> io::Result<()> {
    for entry in fs::read_dir(runs)? {
        let folder = entry?.path();
        let id = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if is_id(&id) {
            let known = registry.get(&id).map_err(io::Error::other)?;
            one(registry, &folder, id, known.as_ref())?;
        }
    }
    Ok(())
}

/// Notes the end of a run that came to it after the list of runs knew of it last. Says whether there was one.
pub(super) fn one(
    registry: &Registry,
    folder: &Path,
    id: String,
    known: Option<&RunInfo>,
) -> io::Result<bool> {
    let changed = |name: &str| fs::metadata(folder.join(name)).and_then(|it| it.modified());
    let Ok(ended) = changed("report.json") else { return Ok(false) };
    let is_noted = |it: &RunInfo| it.status.is_live() || ended < it.updated_at + TICK;
    if known.is_some_and(is_noted) {
        return Ok(false);
    }
    let text = fs::read_to_string(folder.join("report.json")).unwrap_or_default();
    let (Ok(run), Ok(report)) = (Run::look(folder), serde_json::from_str::<Report>(&text)) else {
        return Ok(false);
    };
    let manifest = run.manifest();
    let from = manifest.branch.as_ref().map(|it| it.from.given.run_id.clone());
    let kept = Kept { concurrency: 1, from, ..Kept::default() };
    let done = NewRun { id, subject: manifest.given.ticker.clone(), input: json!(kept) };
    let made = changed("run.json").unwrap_or_else(|_| SystemTime::now());
    registry.adopt(&done, &runner::outcome(&report), made, ended).map_err(io::Error::other)?;
    Ok(true)
}
