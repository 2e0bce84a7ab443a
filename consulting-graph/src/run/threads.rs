//! A run's threads, for who goes on with them and for who only looks.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use graph_core::{Checkpointer, RunError, State, checkpoint::Lookup};
use graph_store::sqlite::SqliteSaver;

use super::{PIPELINE, Run, RunProblem, THREADS, files, new};
use crate::pipeline::PipelineState;

impl Run {
    /// The threads, to go on with them.
    pub(super) fn saver(&self) -> Result<SqliteSaver, RunProblem> {
        Ok(SqliteSaver::open(self.folder.join(THREADS))?)
    }

    /// Copies the threads to another folder. Nothing is written to this one, which may be another person's, or on a
    /// medium that cannot be written to: opening a database is writing.
    pub(super) fn copy_threads(&self, to: &Path) -> Result<(), RunProblem> {
        // What a process that died had not brought into the database's file lies beside it.
        for name in [THREADS.to_owned(), format!("{THREADS}-wal")] {
            files::copy(&self.folder.join(&name), &to.join(&name))?;
        }
        Ok(())
    }

    /// The pipeline's newest state, read from a copy.
    pub(super) async fn read_state(&self) -> Result<PipelineState, RunProblem> {
        let _lock = self.lock_to_read()?;
        let copy = Passing::new()?;
        self.copy_threads(&copy.0)?;
        let saver: Arc<SqliteSaver> = Arc::new(SqliteSaver::open(copy.0.join(THREADS))?);
        pipeline_values(&saver).await
    }
}

/// A folder that is gone with this value.
struct Passing(PathBuf);

impl Passing {
    fn new() -> Result<Self, RunProblem> {
        let name = new::chance(8).map_err(|error| RunProblem::NoPlace(error.to_string()))?;
        let folder = std::env::temp_dir().join(format!("consulting-threads-{name}"));
        files::make(&folder)?;
        Ok(Self(folder))
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, folder = %self.0.display(), "a copy of threads could not be removed");
        }
    }
}

/// The pipeline's state at its newest checkpoint.
pub(super) async fn pipeline_values(saver: &SqliteSaver) -> Result<PipelineState, RunProblem> {
    let head = saver.get(&Lookup::head(PIPELINE, "")).await.map_err(RunError::from)?;
    let mut state = PipelineState::default();
    let names: Vec<String> = state.fields().iter().map(|it| it.name.clone().into_owned()).collect();
    for (name, value) in head.map(|it| it.values).into_iter().flatten() {
        if let Some(index) = names.iter().position(|it| *it == name) {
            let set = state.set_value(index, value);
            set.map_err(|error| RunProblem::NoPlace(error.to_string()))?;
        }
    }
    Ok(state)
}
