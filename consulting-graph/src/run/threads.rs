//! Access to the threads of a run.

use std::{cmp::Reverse, path::Path};

use app_support::{
    files::{self, FileError},
    lock::DirLock,
};
use graph_core::{
    Checkpointer, State, TaskState, Thread, ThreadState,
    checkpoint::{CheckpointId, HistoryQuery, Lookup},
};
use graph_store::sqlite::{Sqlite, SqliteSaver};
use serde_json::{Map, Value};

use super::{
    error::RunError,
    run_dir::{PIPELINE_THREAD, Run, THREADS_FILE},
};
use crate::{
    debate::SandboxState,
    moves::MoveId,
    pipeline::{DEBATE_NODE, Deps, PipelineState},
};

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
    head.map_or_else(|| Ok(PipelineState::default()), |it| read_state(it.values))
}

pub(super) fn read_state<S: State + Default>(values: Map<String, Value>) -> Result<S, RunError> {
    let mut state = S::default();
    let names: Vec<String> = state.fields().iter().map(|it| it.name.clone().into_owned()).collect();
    for (name, value) in values {
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

/// Returns the moves whose debates are part of the current step and have not finished.
pub(super) async fn unfinished_debates(
    thread: &Thread<PipelineState, Deps>,
) -> Result<Vec<MoveId>, RunError> {
    let Some(head) = thread.state().await? else { return Ok(Vec::new()) };
    // The debates were started in the order of the moves.
    let tasks = head.tasks.iter().filter(|it| it.node == DEBATE_NODE).zip(head.values.moves());
    Ok(tasks.filter(|it| it.0.result.is_none()).map(|it| it.1.move_id).collect())
}

/// Returns the newest state without a failure of every debate that has begun, in this execution or in an earlier one.
/// There is at most one state per move.
pub(super) async fn load_debates(
    thread: &Thread<PipelineState, Deps>,
    saver: &SqliteSaver,
    head: &PipelineState,
) -> Result<Vec<SandboxState>, RunError> {
    let is_debate = |it: &&TaskState| it.node == DEBATE_NODE;
    let layer = newest_ancestor(thread, |it| it.tasks.iter().any(|it| is_debate(&it))).await?;
    let mut debates = Vec::new();
    if let Some(layer) = layer {
        // The debates were started in the order of the moves.
        let tasks = layer.tasks.iter().filter(is_debate).zip(layer.values.moves());
        for (task, the_move) in tasks {
            let history = debate_history(saver, &format!("{DEBATE_NODE}:{}", task.id)).await?;
            let move_id = the_move.move_id.to_string();
            // The guest is not trusted, so the state may be about another move.
            let is_usable =
                |it: &SandboxState| it.brief.move_id == move_id && it.failures.is_empty();
            debates.extend(history.into_iter().map(|it| it.1).find(is_usable));
        }
    }
    for earlier in &head.earlier_debates {
        if !debates.iter().any(|it| it.brief.move_id == earlier.brief.move_id) {
            debates.push(earlier.clone());
        }
    }
    Ok(debates)
}

/// Returns all stored states of the debate to which `newest` belongs, newest first. A fork also contains the states
/// before the fork point.
pub(super) async fn load_debate_states(
    saver: &SqliteSaver,
    newest: &SandboxState,
) -> Result<Vec<SandboxState>, RunError> {
    let namespaces = saver.namespaces(PIPELINE_THREAD).await.map_err(graph_core::RunError::from)?;
    let mut states = Vec::new();
    for (namespace, _) in namespaces {
        if namespace.starts_with(&format!("{DEBATE_NODE}:")) {
            states.extend(debate_history(saver, &namespace).await?);
        }
    }
    states.retain(|(_, it)| it.brief == newest.brief && newest.turns.starts_with(&it.turns));
    states.sort_by_key(|it| Reverse(it.0));
    Ok(states.into_iter().map(|it| it.1).collect())
}

/// Returns the stored states of the debate in a namespace, newest first. Leaves out the checkpoint of the input, and
/// states that are not valid, because the guest that stored them is not trusted.
async fn debate_history(
    saver: &SqliteSaver,
    namespace: &str,
) -> Result<Vec<(CheckpointId, SandboxState)>, RunError> {
    let history = saver.list(&HistoryQuery::new(PIPELINE_THREAD, namespace)).await;
    let history = history.map_err(graph_core::RunError::from)?;
    let states =
        history.into_iter().filter_map(|it| Some((it.key.id, read_state(it.values).ok()?)));
    Ok(states.filter(|it: &(_, SandboxState)| !it.1.brief.move_id.is_empty()).collect())
}

/// Returns the newest matching checkpoint among the thread's head and its ancestors. Ignores checkpoints on abandoned
/// branches.
pub(super) async fn newest_ancestor<S: State, C: Send + Sync + 'static>(
    thread: &Thread<S, C>,
    is_match: impl Fn(&ThreadState<S>) -> bool,
) -> Result<Option<ThreadState<S>>, RunError> {
    let mut next = thread.state().await?.map(|it| it.id);
    // The history is sorted newest first, so parents follow their children.
    for state in thread.history(None).await? {
        if next.as_ref() != Some(&state.id) {
            continue;
        }
        if is_match(&state) {
            return Ok(Some(state));
        }
        next = state.parent;
    }
    Ok(None)
}
