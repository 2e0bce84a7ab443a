//! The trace of a complete run. It is not kept while a run goes on: a run that was resumed has only a part of it in
//! one process. A replay from the recording does the same again, step by step, and has all of it.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use graph_server::http::Problem;
use serde_json::{Map, json};
use tokio::{runtime::Handle, sync::Mutex};

use super::desk::{blocking, problem};
use crate::run::{Going, Run};

/// What a replay found is kept beside the report.
const TRACE: &str = "trace.json";

/// The trace of a run as JSON. One replay at a time, to its end, though nobody waits for it any more.
///
/// Whoever waits for a turn holds no thread: a replay needs threads to read from, and would never end if all of them
/// waited for it.
pub(super) async fn of(folder: PathBuf, replaying: Arc<Mutex<()>>) -> Result<String, Problem> {
    let here = folder.clone();
    if let Some(text) = blocking(move || Ok(kept(&here))).await? {
        return Ok(text);
    }
    let (turn, runtime) = (replaying.lock_owned().await, Handle::current());
    blocking(move || {
        let _turn = turn;
        // Somebody else may have made it meanwhile.
        if let Some(text) = kept(&folder) {
            return Ok(text);
        }
        let text = runtime.block_on(replay(&folder))?;
        keep(&folder, &text).map_err(|error| Problem::internal(&error))?;
        Ok(text)
    })
    .await
}

/// The trace that a replay before left, unless the run has come to another end since.
fn kept(folder: &Path) -> Option<String> {
    let changed = |name: &str| fs::metadata(folder.join(name)).and_then(|it| it.modified());
    let is_of_report = changed(TRACE).ok()? >= changed("report.json").ok()?;
    is_of_report.then(|| fs::read_to_string(folder.join(TRACE)).ok())?
}

fn keep(folder: &Path, text: &str) -> io::Result<()> {
    let new = folder.join("trace.new");
    fs::write(&new, text)?;
    fs::rename(&new, folder.join(TRACE))
}

async fn replay(folder: &Path) -> Result<String, Problem> {
    let run = Run::open(folder).map_err(problem)?;
    let again = folder.join("replay");
    let _ = fs::remove_dir_all(&again);
    // Nothing that is replayed comes from outside, so it needs no sandbox.
    let going = Going { backend: Some("in-process".to_owned()), ..Going::default() };
    let replayed = run.replay(&again, going, |_| {}).await;
    let _ = fs::remove_dir_all(&again);
    let traces = replayed.map_err(problem)?.traces;
    let traces: Map<_, _> = traces.into_iter().map(|(name, it)| (name, json!(it))).collect();
    Ok(json!(traces).to_string())
}
