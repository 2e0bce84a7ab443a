//! Branching off: a new run that shares what came before a place with an old one, and does what follows anew.

mod check;

use std::{fmt, path::PathBuf, str::FromStr, sync::Arc};

use graph_core::{AsNode, Checkpointer, RunError, State, Thread, ThreadState};
use graph_store::sqlite::SqliteSaver;
use llm::{RecordMode, Recording};
use sandbox_vm::Isolation;

use super::{
    Branch, CALLS, Given, Going, Manifest, REVIEWED, Run, RunProblem, files, set,
    threads::pipeline_values,
};
use crate::{
    config::Config,
    debate::{self, Desk, SandboxState},
    debates,
    fence::Fence,
    moves::MoveId,
    pipeline::PipelineState,
};

/// A place in a run: a layer, or a round of a debate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Before one of the first three layers.
    Layer(u8),
    /// Before a round of a move's debate.
    Round {
        /// The move.
        move_id: MoveId,
        /// The round.
        round: u32,
    },
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{text}` is no place; write layer_0, layer_1, layer_2, m4 or m4:r5");
        if let Some(number) = text.strip_prefix("layer_") {
            return match number.parse() {
                Ok(number @ 0..=2) => Ok(Self::Layer(number)),
                _ => Err(wrong()),
            };
        }
        let (id, round) = text.split_once(":r").unwrap_or((text, "1"));
        match (MoveId::parse(id), round.parse()) {
            (Ok(move_id), Ok(round @ 1..)) => Ok(Self::Round { move_id, round }),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Layer(number) => write!(f, "layer_{number}"),
            Self::Round { move_id, round } => write!(f, "{move_id}:r{round}"),
        }
    }
}

impl Run {
    /// Makes a new run in a folder that is this one up to a place, with settings changed, and goes on from there.
    ///
    /// What follows a round is the rest of its debate and the debates of all later moves, in the order of their
    /// numbers; with `only` the other debates stay as they are.
    pub async fn fork(
        &self,
        folder: impl Into<PathBuf>,
        run_id: String,
        at: Place,
        only: bool,
        settings: &[String],
    ) -> Result<Self, RunProblem> {
        let folder = folder.into();
        let text = match settings {
            [] => self.manifest.given.config.clone(),
            settings => set::set(&self.manifest.given.config, settings)?,
        };
        let config = Config::parse(&text)?;
        check::check(&self.config, &config, at)?;
        // A database that somebody writes to cannot be copied.
        let _lock = self.lock_to_read()?;
        let given = Given { run_id, config: text, ..self.manifest.given.clone() };
        let mut manifest = Manifest::new(given, &config)?;
        let from = Self::look(&self.folder)?.manifest;
        (manifest.limit, manifest.isolation) = (from.limit, from.isolation);
        manifest.branch = Some(Box::new(Branch {
            from,
            at: at.to_string(),
            only,
            set: settings.to_vec(),
            calls: Recording::open(self.folder.join(CALLS), RecordMode::Replay)?.calls(),
        }));
        let fork = Self::lay(folder, manifest, config)?;
        let made = async {
            self.copy_to(&fork, at)?;
            fork.knows(at).await?;
            fork.rewind(at, only).await
        };
        match made.await {
            Ok(()) => Ok(fork),
            Err(problem) => {
                // It was made a moment ago.
                let _ = std::fs::remove_dir_all(&fork.folder);
                Err(problem)
            }
        }
    }

    /// Copies what the fork goes on from. A review of the moves is of these moves: others need another one.
    fn copy_to(&self, fork: &Self, at: Place) -> Result<(), RunProblem> {
        self.copy_threads(&fork.folder)?;
        let reviewed = matches!(at, Place::Round { .. }).then_some(REVIEWED);
        for name in [CALLS].into_iter().chain(reviewed) {
            files::copy(&self.folder.join(name), &fork.folder.join(name))?;
        }
        Ok(())
    }

    /// Refuses a move that the run does not have.
    async fn knows(&self, at: Place) -> Result<(), RunProblem> {
        let Place::Round { move_id, .. } = at else { return Ok(()) };
        let moves = pipeline_values(&self.saver()?).await?.moves();
        if moves.iter().any(|it| it.move_id == move_id) {
            return Ok(());
        }
        let known: Vec<String> = moves.iter().map(|it| it.move_id.to_string()).collect();
        let problem = format!("the run has no {move_id}; it has: {}", known.join(", "));
        Err(RunProblem::NoPlace(problem))
    }

    /// Takes the threads back to a place.
    async fn rewind(&self, at: Place, only: bool) -> Result<(), RunProblem> {
        let saver = Arc::new(self.saver()?);
        let going = Going {
            isolation: Some(Isolation::Off),
            calls: RecordMode::Replay,
            backend: Some("in-process".to_owned()),
            ..Going::default()
        };
        let pipeline = self.parts(&going, None, Vec::new()).await?.thread;
        let Some(here) = pipeline.state().await? else {
            return Err(RunProblem::NoPlace("the run has not begun".to_owned()));
        };
        let stays = |it: MoveId| match at {
            Place::Layer(_) => false,
            Place::Round { move_id, .. } => it == move_id || only || it < move_id,
        };
        let (node, before) = match at {
            Place::Layer(0) => {
                saver.delete_thread(super::PIPELINE).await.map_err(RunError::from)?;
                ("", "")
            }
            Place::Layer(1) => ("inference_agent", "layer_0_gather"),
            Place::Layer(_) => ("analyst_agent", "layer_1_reduce"),
            Place::Round { .. } => ("sandbox_orchestrator", "layer_2_reduce"),
        };
        if !node.is_empty() {
            let place = find(&pipeline, at, |it| it.next.iter().any(|it| it == node)).await?;
            let held_in = here.values.held_in.iter().filter(|it| stays(it.move_id));
            let update = PipelineState::update().held_in(held_in.cloned().collect::<Vec<_>>());
            pipeline.at(place.id).update_state(update, AsNode::node(before)).await?;
        }
        for it in here.values.moves().iter().filter(|it| !stays(it.move_id)) {
            let thread = it.move_id.to_string();
            saver.delete_thread(&thread).await.map_err(RunError::from)?;
        }
        match at {
            Place::Round { move_id, round } => self.rewind_debate(&saver, move_id, round).await,
            Place::Layer(_) => Ok(()),
        }
    }

    /// Takes a debate back to the end of the round before, on the new terms.
    async fn rewind_debate(
        &self,
        saver: &Arc<SqliteSaver>,
        move_id: MoveId,
        round: u32,
    ) -> Result<(), RunProblem> {
        let name = move_id.to_string();
        if round == 1 {
            return Ok(saver.delete_thread(&name).await.map_err(RunError::from)?);
        }
        let thread = debate::graph(saver.clone())?.thread(&name, Desk::nobody());
        let at = Place::Round { move_id, round };
        let is_there = |it: &ThreadState<SandboxState>| {
            it.values.current_round == round - 1 && it.next == ["critic_individual"]
        };
        let place = find(&thread, at, is_there).await?;
        let given = &self.manifest.given;
        let fence = Fence::new(&given.nonce);
        let terms = debates::terms(&self.config, &given.choice, &fence, given.baseline);
        let update = SandboxState::update().terms(terms).max_rounds(self.config.rounds);
        thread.at(place.id).update_state(update, AsNode::node("dm_respond")).await?;
        Ok(())
    }
}

/// The newest checkpoint of a thread that is at a place, on the way that led to where the thread stands: what it had
/// done before it branched off itself is none of its own.
pub(super) async fn find<S: State, C: Send + Sync + 'static>(
    thread: &Thread<S, C>,
    at: impl fmt::Display,
    is_there: impl Fn(&ThreadState<S>) -> bool,
) -> Result<ThreadState<S>, RunProblem> {
    let mut next = thread.state().await?.map(|it| it.id);
    // The newest come first, so whatever led to a checkpoint comes after it.
    for state in thread.history(None).await? {
        if next.as_ref() != Some(&state.id) {
            continue;
        }
        if is_there(&state) {
            return Ok(state);
        }
        next = state.parent;
    }
    Err(RunProblem::NoPlace(format!("the run never came to {at}")))
}
