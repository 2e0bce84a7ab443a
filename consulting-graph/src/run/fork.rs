//! Forks a run. A fork is a new run. It keeps the results that the original run produced before the fork point, and
//! executes everything after the fork point again.

mod check;
mod point;

use std::path::PathBuf;

use app_support::{files, lock::DirLock};
use graph_core::{AsNode, ThreadState};
use graph_store::sqlite::SqliteSaver;
use llm::{RecordMode, Recording};
use sandbox_vm::Isolation;

use super::{
    error::RunError,
    manifest::{ForkOrigin, Manifest, RunConfig},
    options::ResumeOptions,
    resources::RunResources,
    run_dir::{CALLS_FILE, REVIEWED_FILE, Run},
    settings::apply_settings,
    threads::{load_debate_states, load_debates, load_pipeline_state, newest_ancestor},
};
use crate::{
    config::Config, debate::SandboxState, debate_host, fence::Fence, moves::MoveId,
    pipeline::PipelineState,
};

pub use point::ForkPoint;

impl Run {
    /// Forks the run into a new directory, with changed settings. The fork is not executed yet.
    ///
    /// A fork at a round repeats the debate from that round on, and also repeats the debates about all moves with
    /// higher numbers. If `only` is true, the fork repeats only the debate at the fork point.
    pub async fn fork(
        &self,
        dir: impl Into<PathBuf>,
        run_id: String,
        at: ForkPoint,
        only: bool,
        settings: &[String],
    ) -> Result<Self, RunError> {
        self.check_recorded()?;
        let dir = dir.into();
        let config_toml = match settings {
            [] => self.manifest.run_config.config_toml.clone(),
            settings => apply_settings(&self.manifest.run_config.config_toml, settings)?,
        };
        let config = Config::parse(&config_toml)?;
        check::check_settings(&self.config, &config, at)?;
        // The database must not be written to while it is copied.
        let _lock = DirLock::shared(&self.dir)?;
        let run_config = RunConfig { run_id, config_toml, ..self.manifest.run_config.clone() };
        let mut manifest = Manifest::new(run_config, &config)?;
        let from = Self::open_unchecked(&self.dir)?.manifest;
        (manifest.limit, manifest.required_isolation) = (from.limit, from.required_isolation);
        let inherited_calls =
            Recording::open(self.dir.join(CALLS_FILE), RecordMode::Replay)?.call_count();
        manifest.fork_origin = Some(Box::new(ForkOrigin {
            from,
            at: at.to_string(),
            only,
            set: settings.to_vec(),
            inherited_calls,
            inherited_failures: 0,
        }));
        let mut fork = Self::write_new(dir, manifest, config)?;
        let created = async {
            self.copy_into(&fork, at)?;
            fork.check_move_exists(at).await?;
            fork.rewind(at, only).await?;
            Ok(load_pipeline_state(&fork.open_saver()?).await?.failures.len())
        };
        match created.await {
            Ok(inherited_failures) => {
                if let Some(origin) = &mut fork.manifest.fork_origin {
                    origin.inherited_failures = inherited_failures;
                }
                files::write_synced(&fork.dir.join("run.json"), &fork.manifest.to_json())?;
                Ok(fork)
            }
            Err(problem) => {
                // Removes the incomplete fork. `write_new` ensured that its directory contained nothing else.
                let _ = std::fs::remove_dir_all(&fork.dir);
                Err(problem)
            }
        }
    }

    /// Copies the files that the fork continues from. A review decision applies only to the moves of this run, so it is
    /// copied only if the fork keeps these moves.
    fn copy_into(&self, fork: &Self, at: ForkPoint) -> Result<(), RunError> {
        self.copy_threads(&fork.dir)?;
        let reviewed = matches!(at, ForkPoint::Round { .. }).then_some(REVIEWED_FILE);
        for name in [CALLS_FILE].into_iter().chain(reviewed) {
            files::copy_if_exists(&self.dir.join(name), &fork.dir.join(name))?;
        }
        Ok(())
    }

    /// Returns an error if the fork point refers to a move that the run does not have.
    async fn check_move_exists(&self, at: ForkPoint) -> Result<(), RunError> {
        let ForkPoint::Round { move_id, .. } = at else { return Ok(()) };
        let moves = load_pipeline_state(&self.open_saver()?).await?.moves();
        if moves.iter().any(|it| it.move_id == move_id) {
            return Ok(());
        }
        let ids: Vec<String> = moves.iter().map(|it| it.move_id.to_string()).collect();
        let problem = format!("the run has no move {move_id}; it has: {}", ids.join(", "));
        Err(RunError::InvalidRequest(problem))
    }

    /// Rewinds the pipeline to the fork point. The debates that are not repeated from their beginning continue from
    /// their stored states.
    async fn rewind(&self, at: ForkPoint, only: bool) -> Result<(), RunError> {
        let options = ResumeOptions {
            isolation: Some(Isolation::Off),
            calls: RecordMode::Replay,
            backend: Some("in-process".to_owned()),
            ..ResumeOptions::default()
        };
        let RunResources { thread: pipeline, saver, .. } =
            self.open_resources(&options, Vec::new()).await?;
        let Some(head) = pipeline.state().await? else {
            return Err(RunError::InvalidRequest("the run has not started yet".to_owned()));
        };
        let is_kept = |it: MoveId| match at {
            ForkPoint::Layer(_) => false,
            ForkPoint::Round { move_id, .. } => it == move_id || only || it < move_id,
        };
        let (node, before) = match at {
            ForkPoint::Layer(0) => ("layer_0_gather", "__start__"),
            ForkPoint::Layer(1) => ("inference_agent", "layer_0_gather"),
            ForkPoint::Layer(_) => ("analyst_agent", "layer_1_reduce"),
            ForkPoint::Round { .. } => ("sandbox_orchestrator", "layer_2_reduce"),
        };
        let is_match = |it: &ThreadState<PipelineState>| it.next.iter().any(|it| it == node);
        let checkpoint =
            newest_ancestor(&pipeline, is_match).await?.ok_or_else(|| not_reached(at))?;
        let records = head.values.held_in.iter().filter(|it| is_kept(it.move_id));
        let mut debates = load_debates(&pipeline, &saver, &head.values).await?;
        debates.retain(|it| MoveId::parse(&it.brief.move_id).is_ok_and(is_kept));
        if let ForkPoint::Round { move_id, round } = at {
            self.rewind_debate(&mut debates, &saver, &head.values, move_id, round).await?;
            self.check_rounds(&debates)?;
        }
        let update = PipelineState::update()
            .held_in(records.cloned().collect::<Vec<_>>())
            .earlier_debates(debates);
        pipeline.at(checkpoint.id).update_state(update, AsNode::node(before)).await?;
        Ok(())
    }

    /// Returns an error if a kept debate has more rounds than the fork allows.
    fn check_rounds(&self, debates: &[SandboxState]) -> Result<(), RunError> {
        let longest = debates.iter().max_by_key(|it| it.current_round);
        let Some(longest) = longest.filter(|it| it.current_round > self.config.rounds) else {
            return Ok(());
        };
        let (id, rounds) = (&longest.brief.move_id, longest.current_round);
        let problem = format!(
            "the fork keeps the debate about {id}, which has {rounds} rounds; set at least {rounds}, or fork at \
             {id} to repeat the debate"
        );
        Err(RunError::Setting { setting: "rounds".to_owned(), problem })
    }

    /// Rewinds a debate to the end of the previous round and applies the new settings.
    async fn rewind_debate(
        &self,
        debates: &mut Vec<SandboxState>,
        saver: &SqliteSaver,
        head: &PipelineState,
        move_id: MoveId,
        round: u32,
    ) -> Result<(), RunError> {
        let id = move_id.to_string();
        let position = debates.iter().position(|it| it.brief.move_id == id);
        let newest = position.map(|it| debates.remove(it));
        if round == 1 {
            return Ok(());
        }
        let states = match &newest {
            Some(newest) => load_debate_states(saver, newest).await?,
            None => Vec::new(),
        };
        let is_before = |it: &&SandboxState| it.ends_round(round - 1) && it.failures.is_empty();
        let Some(state) = states.iter().find(is_before) else {
            let at = ForkPoint::Round { move_id, round };
            let was_reached = has_reached(head, move_id, round - 1);
            return Err(if was_reached { call_failed(at) } else { not_reached(at) });
        };
        let run_config = &self.manifest.run_config;
        let fence = Fence::new(&run_config.nonce);
        let terms = debate_host::debate_terms(
            &self.config, &run_config.choice, &fence, run_config.baseline,
        );
        let max_rounds = self.config.rounds;
        debates.push(SandboxState { terms, max_rounds, ..state.clone() });
        Ok(())
    }
}

/// Returns whether a finished debate has turns in this round.
fn has_reached(head: &PipelineState, move_id: MoveId, round: u32) -> bool {
    let logs = head.conversation_logs.iter().filter(|it| it.move_id == move_id);
    logs.flat_map(|it| it.logs.values().flatten()).any(|it| it.round >= round)
}

fn call_failed(at: ForkPoint) -> RunError {
    RunError::InvalidRequest(format!(
        "cannot fork at {at}: a call failed in a round before it; fork at an earlier round, or resume the run first \
         to repeat the call"
    ))
}

fn not_reached(at: ForkPoint) -> RunError {
    RunError::InvalidRequest(format!("the run has not reached {at}"))
}
