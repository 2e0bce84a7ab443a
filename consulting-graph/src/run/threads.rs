//! Access to the threads of a run.

use std::{fmt, path::Path};

use app_support::{
    files::{self, FileError},
    lock::DirLock,
};
use graph_core::{Checkpointer, State, Thread, ThreadState, checkpoint::Lookup};
use graph_store::sqlite::{Sqlite, SqliteSaver};

use super::{
    error::RunError,
    run_dir::{PIPELINE_THREAD, Run, THREADS_FILE},
};
use crate::{pipeline::PipelineState, rewind::newest_ancestor};

impl Run {
    /// Opens the database of the threads for reading and writing.
    pub(super) fn open_saver(&self) -> Result<SqliteSaver, RunError> {
        let database = Sqlite::settings().compress().open(self.dir.join(THREADS_FILE))?;
        Ok(SqliteSaver::new(&database))
    }

    /// Copies the database to another directory. The original is never opened, because opening a database writes to it,
    /// and the run directory may be read-only or belong to another user.
    pub(super) fn copy_threads(&self, to: &Path) -> Result<(), RunError> {
        // The write-ahead log contains commits that a crashed process did not move into the database file.
        for name in [THREADS_FILE.to_owned(), format!("{THREADS_FILE}-wal")] {
            files::copy_if_exists(&self.dir.join(&name), &to.join(&name))?;
        }
        Ok(())
    }

    /// Reads the newest state of the pipeline from a copy of the database.
    pub(super) async fn read_state_copy(&self) -> Result<PipelineState, RunError> {
        let _lock = DirLock::shared(&self.dir)?;
        let scratch = tempfile::tempdir().map_err(FileError::at(&std::env::temp_dir()))?;
        self.copy_threads(scratch.path())?;
        load_pipeline_state(&SqliteSaver::open(scratch.path().join(THREADS_FILE))?).await
    }
}

/// Loads the state of the pipeline at its newest checkpoint.
pub(super) async fn load_pipeline_state(saver: &SqliteSaver) -> Result<PipelineState, RunError> {
    let head =
        saver.get(&Lookup::head(PIPELINE_THREAD, "")).await.map_err(graph_core::RunError::from)?;
    let mut state = PipelineState::default();
    let names: Vec<String> = state.fields().iter().map(|it| it.name.clone().into_owned()).collect();
    for (name, value) in head.map(|it| it.values).into_iter().flatten() {
        if let Some(index) = names.iter().position(|it| *it == name) {
            let set = state.set_value(index, value);
            set.map_err(|error| RunError::InvalidFile {
                path: THREADS_FILE.into(),
                problem: error.to_string(),
            })?;
        }
    }
    Ok(state)
}

/// Returns the newest matching checkpoint among the thread's head and its ancestors. Ignores checkpoints on abandoned
/// branches. The error message contains `at` as the description of the checkpoint.
pub(super) async fn find_checkpoint<S: State, C: Send + Sync + 'static>(
    thread: &Thread<S, C>,
    at: impl fmt::Display,
    is_match: impl Fn(&ThreadState<S>) -> bool,
) -> Result<ThreadState<S>, RunError> {
    let found = newest_ancestor(thread, is_match).await?;
    found.ok_or_else(|| RunError::InvalidRequest(format!("the run has not reached {at}")))
}
