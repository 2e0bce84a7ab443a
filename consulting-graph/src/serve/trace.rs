//! The trace of a complete run. It is not kept while a run goes on: a run that was resumed has only a part of it in
//! one process. A replay from the recording does the same again, step by step, and has all of it.

use std::{
    fs,
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
pub(super) async fn of(folder: PathBuf, replaying: Arc<Mutex<()>>) -> Result<String, Problem> {
    let runtime = Handle::current();
    blocking(move || {
        let kept = folder.join(TRACE);
        if let Ok(text) = fs::read_to_string(&kept) {
            return Ok(text);
        }
        let _turn = replaying.blocking_lock();
        // Somebody else may have made it meanwhile.
        if let Ok(text) = fs::read_to_string(&kept) {
            return Ok(text);
        }
        let text = runtime.block_on(replay(&folder))?;
        let new = folder.join("trace.new");
        let written = fs::write(&new, &text).and_then(|()| fs::rename(&new, &kept));
        written.map_err(|error| Problem::internal(&error))?;
        Ok(text)
    })
    .await
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
