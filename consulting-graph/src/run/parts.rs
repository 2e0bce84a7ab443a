//! What a run goes on with: its threads, its models, its sandboxes.

use std::sync::Arc;

use graph_core::Thread;
use graph_store::sqlite::SqliteSaver;
use llm::{RecordMode, Recording};
use sandbox_vm::{Isolation, Sandboxes};

use super::{CALLS, Going, PIPELINE, Run, RunProblem, files};
use crate::{
    debates::{self, Debates, HeldIn, Traces},
    fence::Fence,
    models::{Limit, Models},
    pipeline::{self, Deps, PipelineState},
};

/// The pipeline's thread, the models that its nodes ask, and who keeps all threads.
pub(super) struct Parts {
    pub(super) thread: Thread<PipelineState, Deps>,
    pub(super) models: Arc<Models>,
    pub(super) saver: Arc<SqliteSaver>,
    /// Whether the run may spend more than it might before.
    pub(super) is_raised: bool,
}

impl Run {
    /// The pipeline's thread, with all that its nodes work with.
    pub(super) async fn parts(
        &self,
        going: &Going,
        traces: Option<Traces>,
        held_in: Vec<HeldIn>,
    ) -> Result<Parts, RunProblem> {
        let saver = Arc::new(self.saver()?);
        let recording = Recording::open(self.folder.join(CALLS), going.calls)?;
        let Told { limit, is_raised, isolation } = self.told(going)?;
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
                fallback: fallback(isolation).await?,
                sandboxes: sandboxes(isolation, going.backend.as_deref()).await?,
                saver: saver.clone(),
                run_id: self.manifest.given.run_id.clone(),
                region: going.region.clone(),
                at_once: going.concurrency,
                baseline: self.manifest.given.baseline,
                folder: self.folder.join("logs"),
                traces,
                held_in,
            },
            review: self.manifest.given.review,
        };
        let thread = pipeline::graph(saver.clone())?.thread(PIPELINE, deps);
        Ok(Parts { thread, models, saver, is_raised })
    }

    /// What the run may spend and how much isolation it needs: what was told now, else what was told before. Both are
    /// kept for the next time.
    fn told(&self, going: &Going) -> Result<Told, RunProblem> {
        if going.calls == RecordMode::Replay {
            let isolation = going.isolation.unwrap_or(Isolation::Preferred);
            return Ok(Told { limit: Limit::default(), is_raised: false, isolation });
        }
        let mut manifest = Self::look(&self.folder)?.manifest;
        let before = (manifest.limit, manifest.isolation);
        let limit = going.limit.or(manifest.limit);
        let isolation = going.isolation.or(manifest.isolation).unwrap_or(Isolation::Preferred);
        let is_raised = limit.exceeds(manifest.limit);
        (manifest.limit, manifest.isolation) = (limit, Some(isolation));
        if before != (manifest.limit, manifest.isolation) {
            files::write(&self.folder.join("run.json"), &manifest.json())?;
        }
        Ok(Told { limit, is_raised, isolation })
    }
}

/// What a run was told about going on.
struct Told {
    limit: Limit,
    /// Whether it may spend more than before.
    is_raised: bool,
    isolation: Isolation,
}

/// Debates in this process, where isolation is only preferred.
async fn fallback(isolation: Isolation) -> Result<Option<Sandboxes>, RunProblem> {
    if isolation != Isolation::Preferred {
        return Ok(None);
    }
    Ok(Some(debates::open(Isolation::Off, Some("in-process")).await?))
}

/// The strongest sandboxes there are, or the ones that were asked for.
async fn sandboxes(isolation: Isolation, only: Option<&str>) -> Result<Sandboxes, RunProblem> {
    if let Some(name) = only.filter(|it| !debates::BACKENDS.contains(it)) {
        let known = debates::BACKENDS.join(", ");
        return Err(RunProblem::NoBackend(name.to_owned(), known));
    }
    Ok(debates::open(isolation, only).await?)
}
