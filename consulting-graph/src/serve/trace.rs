//! Trace of a complete run. It is not stored during execution, because no single process sees the whole execution of a
//! resumed run. Instead, a replay from the recording produces the whole trace.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use app_support::{lock::DirLock, server::blocking};
use graph_core::{BuildError, MemorySaver};
use graph_server::http::Problem;
use graph_trace::Trace;
use tokio::{runtime::Handle, sync::Mutex};

use super::problem::http_problem;
use crate::{
    debate, pipeline,
    run::{ResumeOptions, Run},
};

/// File with the cached trace, next to the report.
const TRACE_FILE: &str = "trace.json";

/// Returns the trace of a run as JSON, replaying the run if there is no cached trace. Replays run one at a time and
/// complete even if the client disconnects.
///
/// A request that is waiting for its replay must not hold a blocking thread. The running replay needs blocking threads
/// and would deadlock if waiting requests held all of them.
pub(super) async fn load_or_replay(
    dir: PathBuf,
    replaying: Arc<Mutex<()>>,
) -> Result<String, Problem> {
    let cache_dir = dir.clone();
    if let Some(text) = blocking(move || Ok(read_cache(&cache_dir))).await? {
        return Ok(text);
    }
    let (guard, runtime) = (replaying.lock_owned().await, Handle::current());
    blocking(move || {
        let _guard = guard;
        // Another request may have stored the trace while this one was waiting.
        if let Some(text) = read_cache(&dir) {
            return Ok(text);
        }
        let text = runtime.block_on(replay(&dir))?;
        write_cache(&dir, &text).map_err(|error| Problem::internal(&error))?;
        Ok(text)
    })
    .await
}

/// Renders the trace of a run, or of one of its debates, as a page. Returns `None` if there is no trace with this name.
pub(super) fn render_page(
    trace: &str,
    name: &str,
    ticker: &str,
) -> Result<Option<String>, Problem> {
    let trace: Trace = serde_json::from_str(trace).map_err(|error| Problem::internal(&error))?;
    let internal = |error: BuildError| Problem::internal(&error);
    if name == "pipeline" {
        let graph = pipeline::graph(Arc::new(MemorySaver::new())).map_err(internal)?;
        return Ok(Some(trace.html(&format!("{ticker}, pipeline"), &graph.drawing(1))));
    }
    let mut debates = pipeline::debate_traces(&trace).map_err(internal)?.into_iter();
    let Some((_, debate)) = debates.find(|(id, _)| id.to_string() == name) else {
        return Ok(None);
    };
    let drawing = debate::graph().map_err(internal)?.drawing(0);
    Ok(Some(debate.html(&format!("{ticker}, debate of {name}"), &drawing)))
}

/// Returns the cached trace, unless the report is newer or the cache has the format of another version.
fn read_cache(dir: &Path) -> Option<String> {
    let modified = |name: &str| fs::metadata(dir.join(name)).and_then(|it| it.modified());
    let is_current = modified(TRACE_FILE).ok()? >= modified("report.json").ok()?;
    let text = is_current.then(|| fs::read_to_string(dir.join(TRACE_FILE)).ok())??;
    serde_json::from_str::<Trace>(&text).is_ok().then_some(text)
}

fn write_cache(dir: &Path, text: &str) -> io::Result<()> {
    let new = dir.join("trace.new");
    fs::write(&new, text)?;
    fs::rename(&new, dir.join(TRACE_FILE))
}

async fn replay(dir: &Path) -> Result<String, Problem> {
    let run = Run::open(dir).map_err(http_problem)?;
    // Keeps the run from being resumed or deleted until the end of the replay.
    let _lock = DirLock::shared(dir).map_err(|error| http_problem(error.into()))?;
    let replay_dir = dir.join("replay");
    let _ = fs::remove_dir_all(&replay_dir);
    // All answers come from the recording, so no isolation is needed.
    let options =
        ResumeOptions { backend: Some("in-process".to_owned()), ..ResumeOptions::default() };
    let replayed = run.replay(&replay_dir, options, |_| {}).await;
    let _ = fs::remove_dir_all(&replay_dir);
    let trace = replayed.map_err(http_problem)?.trace;
    serde_json::to_string(&trace).map_err(|error| Problem::internal(&error))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use graph_trace::{GraphTrace, Header, RunStatus, Trace};

    use super::{read_cache, write_cache};

    #[test]
    fn cached_traces_in_another_format_are_ignored() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("report.json"), "{}").unwrap();
        let (header, root) = (Header::default(), GraphTrace::default());
        let trace = Trace { header, root, end: RunStatus::Done };
        let text = serde_json::to_string(&trace).unwrap();
        write_cache(dir.path(), &text).unwrap();
        assert_eq!(read_cache(dir.path()).as_deref(), Some(&*text));
        write_cache(dir.path(), &format!(r#"{{"pipeline":{text}}}"#)).unwrap();
        assert_eq!(read_cache(dir.path()), None);
    }
}
