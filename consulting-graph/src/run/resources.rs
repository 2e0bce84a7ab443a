//! Opens the threads, models and sandboxes that are needed to execute a run.

use std::sync::Arc;

use app_support::files;
use graph_core::Thread;
use graph_store::sqlite::SqliteSaver;
use llm::{RecordMode, Recording};
use sandbox_vm::{Isolation, Sandboxes};

use super::{
    error::RunError,
    options::ResumeOptions,
    run_dir::{CALLS_FILE, PIPELINE_THREAD, Run},
};
use crate::{
    debate_host::{self, DebateHost, DebateQueue, IsolationRecord, MonitoredSaver, SandboxSupply},
    fence::Fence,
    models::{Limit, Models},
    pipeline::{self, Deps, PipelineState},
    unusable,
};

pub(super) struct RunResources {
    pub(super) thread: Thread<PipelineState, Deps>,
    pub(super) models: Arc<Models>,
    pub(super) debates: Arc<DebateHost>,
    pub(super) saver: Arc<SqliteSaver>,
    /// Whether the spending limit is higher than in the last execution.
    pub(super) limit_raised: bool,
}

impl Run {
    /// Opens everything that the pipeline's nodes need, and the pipeline's thread.
    pub(super) async fn open_resources(
        &self,
        options: &ResumeOptions,
        recorded_isolation: Vec<IsolationRecord>,
    ) -> Result<RunResources, RunError> {
        let saver = Arc::new(self.open_saver()?);
        let recording = self.open_recording(options.calls)?;
        let EffectiveLimits { limit, limit_raised, isolation } =
            self.store_effective_limits(options)?;
        let choice = self.manifest.run_config.choice.clone();
        let inherited_calls = self.manifest.fork_origin.as_ref().map_or(0, |it| it.inherited_calls);
        let model_override = options.model_override.as_ref();
        let models = Arc::new(Models::new(
            &self.config, choice, model_override, limit, &recording, inherited_calls,
            &options.call_limits,
        )?);
        let fence = Fence::new(&self.manifest.run_config.nonce);
        let monitored = Arc::new(MonitoredSaver::new(saver.clone()));
        let debates = Arc::new(DebateHost {
            config: self.config.clone(),
            fence: fence.clone(),
            models: models.clone(),
            fallback: fallback_sandboxes(isolation).await?,
            sandboxes: open_sandboxes(isolation, options.backend.as_deref()).await?,
            supply: SandboxSupply::new(options.sandbox_reuse),
            isolation,
            saver: monitored.clone(),
            queue: DebateQueue::new(options.concurrency),
            run_id: self.manifest.run_config.run_id.clone(),
            baseline: self.manifest.run_config.baseline,
            log_dir: self.dir.join("logs"),
            is_traced: options.trace,
            recorded_isolation,
        });
        let deps = Deps {
            config: self.config.clone(),
            data: self.manifest.run_config.data.clone(),
            fence,
            models: models.clone(),
            debates: debates.clone(),
            debate_saver: None,
            review: self.manifest.run_config.review,
            dir: self.dir.clone(),
            scratch: None,
        };
        let thread = pipeline::graph(monitored)?.thread(PIPELINE_THREAD, deps);
        Ok(RunResources { thread, models, debates, saver, limit_raised })
    }

    /// Opens the recording of the run. The answers that a fork inherited from its origin are not used again, because
    /// the state of the fork contains everything before the fork point. Answers that could not be used are requested
    /// again.
    fn open_recording(&self, mode: RecordMode) -> Result<Recording, RunError> {
        let recording = Recording::open(self.dir.join(CALLS_FILE), mode)?.compress();
        let inherited_calls = self.manifest.fork_origin.as_ref().map_or(0, |it| it.inherited_calls);
        let recording = recording.ignore_first(inherited_calls);
        Ok(match mode {
            RecordMode::Replay => recording,
            _ => unusable::repeat_unusable(recording, &self.config),
        })
    }

    /// Returns the spending limit and the isolation requirement for this execution. The options take precedence over
    /// the values stored in the manifest. Unless this is a replay, stores both in the manifest for later executions.
    fn store_effective_limits(&self, options: &ResumeOptions) -> Result<EffectiveLimits, RunError> {
        if options.calls == RecordMode::Replay {
            let isolation = options.isolation.unwrap_or(Isolation::Preferred);
            return Ok(EffectiveLimits { limit: Limit::default(), limit_raised: false, isolation });
        }
        let mut manifest = Self::open_unchecked(&self.dir)?.manifest;
        let before = (manifest.limit, manifest.required_isolation);
        let limit = options.limit.or(manifest.limit);
        let required = options.isolation.or(manifest.required_isolation);
        let required = required.filter(|it| *it != Isolation::Preferred);
        let limit_raised = limit.exceeds(manifest.limit);
        (manifest.limit, manifest.required_isolation) = (limit, required);
        if before != (limit, required) {
            files::write_synced(&self.dir.join("run.json"), &manifest.to_json())?;
        }
        let isolation = required.unwrap_or(Isolation::Preferred);
        Ok(EffectiveLimits { limit, limit_raised, isolation })
    }
}

/// Limits that apply to this execution.
struct EffectiveLimits {
    limit: Limit,
    /// Whether the spending limit is higher than in the last execution.
    limit_raised: bool,
    isolation: Isolation,
}

/// Opens in-process sandboxes as a fallback, if isolation is only preferred.
pub(crate) async fn fallback_sandboxes(
    isolation: Isolation,
) -> Result<Option<Sandboxes>, RunError> {
    if isolation != Isolation::Preferred {
        return Ok(None);
    }
    Ok(Some(debate_host::open_sandboxes(Isolation::Off, Some("in-process")).await?))
}

/// Opens the named sandbox back end, or the strongest available one.
pub(crate) async fn open_sandboxes(
    isolation: Isolation,
    name: Option<&str>,
) -> Result<Sandboxes, RunError> {
    if let Some(name) = name.filter(|it| !debate_host::BACKENDS.contains(it)) {
        let known = debate_host::BACKENDS.join(", ");
        return Err(RunError::UnknownBackend(name.to_owned(), known));
    }
    Ok(debate_host::open_sandboxes(isolation, name).await?)
}
