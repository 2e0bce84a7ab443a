//! The trace of a complete run. It is not kept while a run goes on: a run that was resumed has only a part of it in
//! one process. A replay from the recording does the same again, step by step, and has all of it.

use std::{fs, path::Path};

use graph_server::http::Problem;
use serde_json::{Map, json};
use tokio::sync::Mutex;

use super::desk::problem;
use crate::run::{Going, Run};

/// What a replay found is kept beside the report.
const TRACE: &str = "trace.json";

/// The trace of a run as JSON.
pub(super) async fn of(folder: &Path, replaying: &Mutex<()>) -> Result<String, Problem> {
    let kept = folder.join(TRACE);
    if !folder.join("report.json").is_file() {
        return Err(Problem::conflict("the run is not complete"));
    }
    let _turn = replaying.lock().await;
    if let Ok(text) = fs::read_to_string(&kept) {
        return Ok(text);
    }
    let run = Run::open(folder).map_err(problem)?;
    let again = folder.join("replay");
    let _ = fs::remove_dir_all(&again);
    // Nothing that is replayed comes from outside, so it needs no sandbox.
    let going = Going { backend: Some("in-process".to_owned()), ..Going::default() };
    let replayed = run.replay(&again, going, |_| {}).await;
    let _ = fs::remove_dir_all(&again);
    let traces = replayed.map_err(problem)?.traces;
    let traces: Map<_, _> = traces.into_iter().map(|(name, it)| (name, json!(it))).collect();
    let text = json!(traces).to_string();
    fs::write(&kept, &text).map_err(|error| Problem::internal(&error))?;
    Ok(text)
}
