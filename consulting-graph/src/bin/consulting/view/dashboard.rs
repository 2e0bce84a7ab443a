//! Progress of a run, computed from its events.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use consulting_graph::{
    event::{Layer, PipelineEvent, RoundStatus},
    moves::MoveId,
    rank::{Ranking, rank},
    run::Run,
    score::MoveScore,
    spending::Spending,
};

use super::text::first_line;
use sandbox_vm::report::IsolationLevel;

/// Layers of the pipeline, in the order of execution.
pub(super) const LAYERS: [Layer; 4] =
    [Layer::Number(0), Layer::Number(1), Layer::Number(2), Layer::SANDBOX];

/// Properties of a run that do not change.
#[derive(Debug, Clone)]
pub(crate) struct RunHeader {
    pub(super) ticker: String,
    pub(super) run_id: String,
    /// Provider and data source.
    pub(super) description: String,
    pub(super) rounds: u32,
    pub(super) max_score: usize,
    pub(super) top_k: usize,
    /// Ids of the decision makers. The transcript of the first one is named `i1`.
    pub(super) makers: Vec<String>,
}

impl RunHeader {
    pub(crate) fn new(run: &Run) -> Self {
        let (run_config, config) = (&run.manifest().run_config, run.config());
        let provider = if run_config.choice.is_scripted() {
            "scripted model".to_owned()
        } else {
            run_config.choice.provider.clone()
        };
        let data = run_config.data.label(&run_config.ticker);
        Self {
            ticker: run_config.ticker.clone(),
            run_id: run_config.run_id.clone(),
            description: format!("{provider} · {data}"),
            rounds: config.rounds,
            max_score: config.max_total_score(),
            top_k: config.top_k,
            makers: config.decision_makers.iter().map(|it| it.id.clone()).collect(),
        }
    }

    /// Returns the id of the decision maker to whom the transcript `log` belongs, such as `D1` for `i1`. Returns `log`
    /// itself if it is not the name of a transcript.
    pub(super) fn maker<'a>(&'a self, log: &'a str) -> &'a str {
        let number = log.strip_prefix('i').and_then(|it| it.parse::<usize>().ok());
        number.and_then(|it| self.makers.get(it.checked_sub(1)?)).map_or(log, String::as_str)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Dashboard {
    pub(super) header: RunHeader,
    pub(super) layers: BTreeMap<Layer, LayerProgress>,
    pub(super) moves: BTreeMap<MoveId, MoveProgress>,
    scores: Vec<MoveScore>,
    /// Name of the sandbox back end, and how strongly it isolates guests from the host.
    pub(super) sandbox: Option<(String, IsolationLevel)>,
    /// Moves whose debates run with less isolation than the others.
    less_isolated: BTreeSet<MoveId>,
    /// Warnings and errors, oldest first.
    pub(super) warnings: Vec<String>,
    pub(super) is_complete: bool,
    pub(super) spending: Spending,
    /// Time at which the debates started, and their progress at that time.
    debates_started: Option<(Duration, f64)>,
    /// Time since the last event. `None` if it is too short to be shown.
    pub(super) wait: Option<Duration>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct LayerProgress {
    /// Names of the documents that the layer produced. `None` until the layer is complete.
    pub(super) artifacts: Option<Vec<String>>,
    pub(super) agents: Vec<AgentProgress>,
}

#[derive(Debug, Clone)]
pub(super) struct AgentProgress {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) status: AgentStatus,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AgentStatus {
    Running,
    Done(Vec<String>),
    Failed(String),
}

#[derive(Debug, Clone, Default)]
pub(super) struct MoveProgress {
    pub(super) title: String,
    pub(super) state: MoveState,
}

#[derive(Debug, Clone, Default)]
pub(super) enum MoveState {
    #[default]
    Pending,
    /// The sandbox is ready, and the debate has not started.
    SandboxReady,
    Debating {
        round: u32,
        status: RoundStatus,
        /// Last speaker, and the first line of that speaker's text.
        last: Option<(String, String)>,
    },
    Scored,
    Skipped,
}

impl Dashboard {
    /// Sets the time since the last event, if it is long.
    pub(crate) fn set_wait(&mut self, wait: Option<Duration>) {
        self.wait = wait;
    }

    pub(crate) fn new(header: RunHeader) -> Self {
        Self {
            header,
            layers: BTreeMap::new(),
            moves: BTreeMap::new(),
            scores: Vec::new(),
            sandbox: None,
            less_isolated: BTreeSet::new(),
            warnings: Vec::new(),
            is_complete: false,
            spending: Spending::default(),
            debates_started: None,
            wait: None,
        }
    }

    /// Applies an event. `at` is the time since the start of the program.
    pub(crate) fn apply(&mut self, event: &PipelineEvent, at: Duration) {
        match event {
            PipelineEvent::LayerStart { layer, .. } => {
                // Marks earlier layers as complete, because a fork has no events for the layers before its fork point.
                for before in LAYERS.iter().filter(|it| *it < layer) {
                    self.layers.entry(*before).or_default().artifacts.get_or_insert_default();
                }
                self.layers.entry(*layer).or_default();
            }
            PipelineEvent::LayerComplete { layer, artifacts, .. } => {
                self.layers.entry(*layer).or_default().artifacts = Some(artifacts.clone());
                match layer {
                    Layer::Number(2) => self.set_moves(artifacts),
                    Layer::Debate(_) => self.finish_debates(),
                    Layer::Number(_) => {}
                }
            }
            PipelineEvent::AgentStart { layer, agent_id, persona } => {
                let agents = &mut self.layers.entry(*layer).or_default().agents;
                if !agents.iter().any(|it| it.id == *agent_id) {
                    let (id, name) = (agent_id.clone(), persona.clone());
                    agents.push(AgentProgress { id, name, status: AgentStatus::Running });
                }
            }
            PipelineEvent::AgentComplete { layer, agent_id, outputs, .. } => {
                self.set_agent_status(*layer, agent_id, AgentStatus::Done(outputs.clone()));
            }
            PipelineEvent::AgentFailed { layer, agent_id, reason } => {
                self.set_agent_status(*layer, agent_id, AgentStatus::Failed(first_line(reason)));
                self.warnings.push(format!("{agent_id} failed: {}", first_line(reason)));
            }
            PipelineEvent::SandboxReady { backend, isolation, title, .. } => {
                // Ignore the isolation of debates with less isolation than the others, because the view shows this
                // value for all debates.
                if move_id(event).is_none_or(|it| !self.less_isolated.contains(&it)) {
                    self.sandbox = Some((backend.clone(), *isolation));
                }
                self.debates_started.get_or_insert((at, self.progress()));
                if let Some(progress) = self.progress_of(event) {
                    *progress =
                        MoveProgress { title: first_line(title), state: MoveState::SandboxReady };
                }
            }
            PipelineEvent::SandboxRound { round, status, texts, .. } => {
                self.debates_started.get_or_insert((at, self.progress()));
                self.apply_round(event, *round, *status, texts);
            }
            PipelineEvent::SandboxScored { breakdown, .. } => {
                if let Some(id) = move_id(event) {
                    // A resumed debate is scored again, so its earlier score is removed.
                    self.scores.retain(|it| it.move_id != id);
                    self.scores.push(MoveScore::new(id, breakdown.clone(), []));
                }
                self.set_move_state(event, MoveState::Scored);
            }
            PipelineEvent::SandboxSkipped { move_id, reason } => {
                self.set_move_state(event, MoveState::Skipped);
                self.warnings.push(format!("{move_id} has no score: {}", first_line(reason)));
            }
            PipelineEvent::SandboxDegraded { move_id: id, backend, isolation, reason } => {
                self.less_isolated.extend(move_id(event));
                if id.is_none() {
                    self.sandbox = Some((backend.clone(), *isolation));
                }
                // If no debate is isolated, the view shows a separate notice instead.
                if id.is_some() || *isolation > IsolationLevel::Off {
                    self.warnings.push(degraded_text(id.as_deref(), backend, *isolation, reason));
                }
            }
            PipelineEvent::BudgetWarning { percent } => {
                self.warnings.push(format!("{percent}% of the budget is used"));
            }
            PipelineEvent::BudgetExceeded { reason } => {
                self.warnings.push(format!("the budget is exhausted: {}", first_line(reason)));
            }
            PipelineEvent::PipelineComplete { .. } => self.is_complete = true,
            PipelineEvent::PipelineError { message } => self.warnings.push(first_line(message)),
            _ => {}
        }
    }

    /// Applies the events of earlier executions, whose times are unknown.
    pub(crate) fn apply_past<'a>(&mut self, events: impl Iterator<Item = &'a PipelineEvent>) {
        for event in events {
            self.apply(event, Duration::ZERO);
        }
        let progress = self.progress();
        self.debates_started = self.debates_started.map(|_| (Duration::ZERO, progress));
        // The warnings and the completion of an earlier execution do not apply to this execution.
        self.warnings.clear();
        self.is_complete = false;
    }

    pub(crate) fn set_spending(&mut self, spending: Spending) {
        self.spending = spending;
    }

    pub(super) fn title(&self, move_id: &str) -> &str {
        MoveId::parse(move_id).ok().and_then(|it| self.moves.get(&it)).map_or("", |it| &it.title)
    }

    /// Returns the number of finished debates and the total number of debates.
    pub(super) fn debates(&self) -> (usize, usize) {
        let is_finished =
            |it: &&MoveProgress| matches!(it.state, MoveState::Scored | MoveState::Skipped);
        (self.moves.values().filter(is_finished).count(), self.moves.len())
    }

    /// Returns the current ranking of the scored moves.
    pub(super) fn ranking(&self) -> Ranking {
        rank(&self.scores, Vec::new(), self.header.top_k)
    }

    /// Estimates the remaining time of the debates from their speed so far.
    pub(super) fn remaining(&self, now: Duration) -> Option<Duration> {
        let (since, before) = self.debates_started.filter(|_| !self.is_complete)?;
        let progress = self.progress();
        let (done, left) = (progress - before, self.moves.len() as f64 - progress);
        // Until a tenth of one debate is done, it is too early for an estimate.
        (done >= 0.1).then(|| now.saturating_sub(since).mul_f64((left / done).max(0.0)))
    }

    /// Returns the number of finished debates. Each running debate counts as the fraction that is done.
    fn progress(&self) -> f64 {
        let steps = f64::from(2 * self.header.rounds + 1);
        let part = |it: &MoveProgress| match &it.state {
            MoveState::Pending | MoveState::SandboxReady => 0.0,
            MoveState::Scored | MoveState::Skipped => 1.0,
            MoveState::Debating { round, status, .. } => {
                f64::from(finished_turns(*round, *status)) / steps
            }
        };
        self.moves.values().map(part).sum()
    }

    /// Sets the moves that will be debated.
    fn set_moves(&mut self, artifacts: &[String]) {
        let ids = artifacts.iter().filter_map(|it| MoveId::parse(it.strip_suffix(".md")?).ok());
        let mut known = std::mem::take(&mut self.moves);
        self.moves = ids.map(|it| (it, known.remove(&it).unwrap_or_default())).collect();
    }

    /// Sets the state of every debate to [`MoveState::Scored`], except for skipped debates. This includes the debates
    /// that were scored in earlier executions.
    fn finish_debates(&mut self) {
        for progress in self.moves.values_mut().filter(|it| !matches!(it.state, MoveState::Skipped))
        {
            progress.state = MoveState::Scored;
        }
    }

    fn set_agent_status(&mut self, layer: Layer, id: &str, status: AgentStatus) {
        let agents = &mut self.layers.entry(layer).or_default().agents;
        if let Some(agent) = agents.iter_mut().find(|it| it.id == id) {
            agent.status = status;
        }
    }

    fn progress_of(&mut self, event: &PipelineEvent) -> Option<&mut MoveProgress> {
        Some(self.moves.entry(move_id(event)?).or_default())
    }

    fn set_move_state(&mut self, event: &PipelineEvent, state: MoveState) {
        if let Some(progress) = self.progress_of(event) {
            progress.state = state;
        }
    }

    fn apply_round(
        &mut self,
        event: &PipelineEvent,
        round: u32,
        status: RoundStatus,
        texts: &BTreeMap<String, String>,
    ) {
        let is_critic =
            matches!(status, RoundStatus::CriticResponding | RoundStatus::CriticResponded);
        let spoken = texts.iter().next_back().map(|(log, words)| {
            let who = if is_critic { "critic" } else { self.header.maker(log) };
            (who.to_owned(), first_line(words))
        });
        if let Some(progress) = self.progress_of(event) {
            let before = match &mut progress.state {
                MoveState::Debating { last, .. } => last.take(),
                _ => None,
            };
            progress.state = MoveState::Debating { round, status, last: spoken.or(before) };
        }
    }
}

/// Returns the number of finished turns of a debate. Each round counts as two turns, one by the critic and one by all
/// decision makers.
pub(super) fn finished_turns(round: u32, status: RoundStatus) -> u32 {
    let of_round = match status {
        RoundStatus::CriticResponding => 0,
        RoundStatus::CriticResponded | RoundStatus::DmResponding => 1,
        RoundStatus::DmResponded => 2,
    };
    2 * round.saturating_sub(1) + of_round
}

/// Describes the isolation of the debate about one move, or of all debates, and why there is no stronger one.
pub(super) fn degraded_text(
    move_id: Option<&str>,
    backend: &str,
    isolation: IsolationLevel,
    reason: &str,
) -> String {
    let debates = move_id.map_or("debates run".to_owned(), |it| format!("{it} runs"));
    format!("{debates} with {backend} ({}); {reason}", isolation.description())
}

fn move_id(event: &PipelineEvent) -> Option<MoveId> {
    MoveId::parse(event.move_id()?).ok()
}
