//! What a run goes on with: its threads, its models, its sandboxes.

use std::sync::Arc;

use graph_core::Thread;
use graph_store::sqlite::SqliteSaver;
use llm::{RecordMode, Recording};
use sandbox_vm::{Isolation, Sandboxes};

use super::{CALLS, Going, PIPELINE, Run, RunProblem, THREADS, files};
use crate::{
    debates::{self, Debates, Held, Traces},
    fence::Fence,
    models::{Limit, Models},
    pipeline::{self, Deps, PipelineState},
};

/// The pipeline's thread, and the models that its nodes ask.
pub(super) struct Parts {
    pub(super) thread: Thread<PipelineState, Deps>,
    pub(super) models: Arc<Models>,
}

impl Run {
    /// The pipeline's thread, with all that its nodes work with.
    pub(super) async fn parts(
        &self,
        going: &Going,
        traces: Option<Traces>,
        held: Option<Held>,
    ) -> Result<Parts, RunProblem> {
        let saver = Arc::new(self.saver()?);
        let recording = Recording::open(self.folder.join(CALLS), going.calls)?;
        let limit = self.limit(going)?;
        let choice = self.manifest.given.choice.clone();
        let taken_over = self.manifest.branch.as_ref().map_or(0, |it| it.calls);
        let speaker = going.speaker.as_ref();
        let models = Models::new(&self.config, choice, speaker, limit, &recording, taken_over)?;
        let models = Arc::new(models);
        let deps = Deps {
            config: self.config.clone(),
            data: self.manifest.given.data.clone(),
            fence: Fence::new(&self.manifest.given.nonce),
            models: models.clone(),
            debates: Debates {
                fallback: fallback(going).await?,
                sandboxes: sandboxes(going).await?,
                saver: saver.clone(),
                run_id: self.manifest.given.run_id.clone(),
                region: going.region.clone(),
                at_once: going.concurrency,
                baseline: self.manifest.given.baseline,
                folder: self.folder.join("logs"),
                traces,
                held,
            },
            review: self.manifest.given.review,
        };
        Ok(Parts { thread: pipeline::graph(saver)?.thread(PIPELINE, deps), models })
    }

    pub(super) fn saver(&self) -> Result<SqliteSaver, RunProblem> {
        Ok(SqliteSaver::open(self.folder.join(THREADS))?)
    }

    /// What the run may spend: what was told now, else what was told before. It is kept for the next time.
    fn limit(&self, going: &Going) -> Result<Limit, RunProblem> {
        if going.calls == RecordMode::Replay {
            return Ok(Limit::default());
        }
        let mut manifest = Self::look(&self.folder)?.manifest;
        let limit = going.limit.or(manifest.limit);
        if limit != manifest.limit {
            manifest.limit = limit;
            files::write(&self.folder.join("run.json"), &manifest.json())?;
        }
        Ok(limit)
    }
}

/// The fields of the pipeline's newest checkpoint that say what was paid.
pub(super) async fn pipeline_values(saver: &Arc<SqliteSaver>) -> Result<PipelineState, RunProblem> {
    use graph_core::{Checkpointer, State, checkpoint::Lookup};
    let head = saver.get(&Lookup::head(PIPELINE, "")).await.map_err(graph_core::RunError::from)?;
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

/// Debates in this process, where isolation is only preferred.
async fn fallback(going: &Going) -> Result<Option<Sandboxes>, RunProblem> {
    if going.isolation != Isolation::Preferred {
        return Ok(None);
    }
    Ok(Some(debates::open(Isolation::Off, Some("in-process")).await?))
}

/// The strongest sandboxes there are, or the ones that were asked for.
async fn sandboxes(going: &Going) -> Result<Sandboxes, RunProblem> {
    let only = going.backend.as_deref();
    if let Some(name) = only.filter(|it| !debates::BACKENDS.contains(it)) {
        let known = debates::BACKENDS.join(", ");
        return Err(RunProblem::NoBackend(name.to_owned(), known));
    }
    Ok(debates::open(going.isolation, only).await?)
}
