//! Access to the threads of a run.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use graph_core::{Checkpointer, State, checkpoint::Lookup};
use graph_store::sqlite::SqliteSaver;

use super::{PIPELINE_THREAD, Run, RunError, THREADS_FILE, files, new_run};
use crate::pipeline::PipelineState;

impl Run {
    /// Opens the database of the threads for reading and writing.
    pub(super) fn open_saver(&self) -> Result<SqliteSaver, RunError> {
        Ok(SqliteSaver::open(self.dir.join(THREADS_FILE))?)
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
        let _lock = self.lock_shared()?;
        let scratch = ScratchDir::new()?;
        self.copy_threads(&scratch.0)?;
        let saver: Arc<SqliteSaver> = Arc::new(SqliteSaver::open(scratch.0.join(THREADS_FILE))?);
        load_pipeline_state(&saver).await
    }
}

/// A temporary directory, removed on drop.
struct ScratchDir(PathBuf);

impl ScratchDir {
    fn new() -> Result<Self, RunError> {
        let name = new_run::random_hex(8)
            .map_err(|error| RunError::InvalidOperation(error.to_string()))?;
        let dir = std::env::temp_dir().join(format!("consulting-threads-{name}"));
        files::create_dir(&dir)?;
        Ok(Self(dir))
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, dir = %self.0.display(), "cannot remove a temporary copy of the database");
        }
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
            set.map_err(|error| RunError::InvalidOperation(error.to_string()))?;
        }
    }
    Ok(state)
}
