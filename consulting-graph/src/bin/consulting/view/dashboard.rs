//! What is known of a run while it runs: its events, folded.

use std::{collections::BTreeMap, time::Duration};

use consulting_graph::{
    event::{Layer, PipelineEvent, RoundStatus},
    moves::MoveId,
    rank::{Ranking, rank},
    run::Run,
    score::MoveScore,
    spent::Spent,
};

use super::text::first_line;

/// The layers, in order.
pub(super) const LAYERS: [Layer; 4] =
    [Layer::Number(0), Layer::Number(1), Layer::Number(2), Layer::SANDBOX];

/// What does not change while a run runs.
#[derive(Debug, Clone)]
pub(crate) struct Cast {
    pub(super) ticker: String,
    pub(super) run_id: String,
    /// Who speaks, and on what data.
    pub(super) terms: String,
    pub(super) rounds: u32,
    pub(super) best_score: usize,
    pub(super) top_k: usize,
    /// The decision makers' ids; the first keeps the log `i1`.
    pub(super) makers: Vec<String>,
}

impl Cast {
    pub(crate) fn of(run: &Run) -> Self {
        let (given, config) = (&run.manifest().given, run.config());
        let speaks = if given.choice.is_scripted() {
            "scripted model".to_owned()
        } else {
            given.choice.provider.clone()
        };
        let is_synthetic = given.data.from == consulting_graph::data::From::Synthetic;
        let data = if is_synthetic {
            "SYNTHETIC DATA".to_owned()
        } else {
            format!("data as of {}", given.data.as_of)
        };
        Self {
            ticker: given.ticker.clone(),
            run_id: given.run_id.clone(),
            terms: format!("{speaks} · {data}"),
            rounds: config.rounds,
            best_score: config.best_score(),
            top_k: config.top_k,
            makers: config.decision_makers.iter().map(|it| it.id.clone()).collect(),
        }
    }

    /// Whose conversation a log is.
    pub(super) fn maker<'a>(&'a self, log: &'a str) -> &'a str {
        let number = log.strip_prefix('i').and_then(|it| it.parse::<usize>().ok());
        number.and_then(|it| self.makers.get(it.checked_sub(1)?)).map_or(log, String::as_str)
    }
}

/// How a run stands.
#[derive(Debug, Clone)]
pub(crate) struct Dashboard {
    pub(super) cast: Cast,
    pub(super) layers: BTreeMap<Layer, Stage>,
    pub(super) moves: BTreeMap<MoveId, Standing>,
    scores: Vec<MoveScore>,
    /// What the debates run in, and whether that isolates.
    pub(super) sandbox: Option<(String, bool)>,
    /// What went wrong, oldest first.
    pub(super) troubles: Vec<String>,
    pub(super) is_over: bool,
    pub(super) spent: Spent,
    /// When debates began, and how much of them was done by then.
    debating_since: Option<(Duration, f64)>,
}

/// How a layer stands.
#[derive(Debug, Clone, Default)]
pub(super) struct Stage {
    /// What it made, once it is done.
    pub(super) made: Option<Vec<String>>,
    pub(super) agents: Vec<Agent>,
}

/// How someone in a layer stands.
#[derive(Debug, Clone)]
pub(super) struct Agent {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) work: Work,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Work {
    Busy,
    Made(Vec<String>),
    Failed(String),
}

/// How a move stands.
#[derive(Debug, Clone, Default)]
pub(super) struct Standing {
    pub(super) title: String,
    pub(super) state: State,
}

#[derive(Debug, Clone, Default)]
pub(super) enum State {
    #[default]
    Waits,
    /// In a sandbox that is there.
    Opened,
    Debated {
        round: u32,
        status: RoundStatus,
        /// Who spoke last, and the first line of it.
        last: Option<(String, String)>,
    },
    Scored,
    Skipped,
}

impl Dashboard {
    pub(crate) fn new(cast: Cast) -> Self {
        Self {
            cast,
            layers: BTreeMap::new(),
            moves: BTreeMap::new(),
            scores: Vec::new(),
            sandbox: None,
            troubles: Vec::new(),
            is_over: false,
            spent: Spent::default(),
            debating_since: None,
        }
    }

    /// Takes in what happened so long after the program was started.
    pub(crate) fn take(&mut self, event: &PipelineEvent, at: Duration) {
        match event {
            PipelineEvent::LayerStart { layer, .. } => {
                // Of a run that branched off, what came before is not told.
                for before in LAYERS.iter().filter(|it| *it < layer) {
                    self.layers.entry(*before).or_default().made.get_or_insert_default();
                }
                self.layers.entry(*layer).or_default();
            }
            PipelineEvent::LayerComplete { layer, artifacts, .. } => {
                self.layers.entry(*layer).or_default().made = Some(artifacts.clone());
                match layer {
                    Layer::Number(2) => self.expect(artifacts),
                    Layer::Debate(_) => self.settle(),
                    Layer::Number(_) => {}
                }
            }
            PipelineEvent::AgentStart { layer, agent_id, persona } => {
                let agents = &mut self.layers.entry(*layer).or_default().agents;
                if !agents.iter().any(|it| it.id == *agent_id) {
                    let (id, name) = (agent_id.clone(), persona.clone());
                    agents.push(Agent { id, name, work: Work::Busy });
                }
            }
            PipelineEvent::AgentComplete { layer, agent_id, outputs, .. } => {
                self.agent(*layer, agent_id, Work::Made(outputs.clone()));
            }
            PipelineEvent::AgentFailed { layer, agent_id, reason } => {
                self.agent(*layer, agent_id, Work::Failed(first_line(reason)));
                self.troubles.push(format!("{agent_id} failed: {}", first_line(reason)));
            }
            PipelineEvent::SandboxReady { backend, isolated, title, .. } => {
                self.sandbox = Some((backend.clone(), *isolated));
                self.debating_since.get_or_insert((at, self.progress()));
                if let Some(standing) = self.standing(event) {
                    *standing = Standing { title: first_line(title), state: State::Opened };
                }
            }
            PipelineEvent::SandboxRound { round, status, said, .. } => {
                self.debating_since.get_or_insert((at, self.progress()));
                self.round(event, *round, *status, said);
            }
            PipelineEvent::SandboxScored { breakdown, .. } => {
                if let Some(id) = move_id(event) {
                    // A debate that was gone on with is scored once more.
                    self.scores.retain(|it| it.move_id != id);
                    self.scores.push(MoveScore::new(id, breakdown.clone(), []));
                }
                self.set(event, State::Scored);
            }
            PipelineEvent::SandboxSkipped { move_id, reason } => {
                self.set(event, State::Skipped);
                self.troubles.push(format!("{move_id} has no score: {}", first_line(reason)));
            }
            PipelineEvent::SandboxDegraded { backend, .. } => {
                self.sandbox = Some((backend.clone(), false));
            }
            PipelineEvent::BudgetWarning { percent } => {
                self.troubles.push(format!("{percent}% of the budget is spent"));
            }
            PipelineEvent::BudgetExceeded { reason } => {
                self.troubles.push(format!("the budget is spent: {}", first_line(reason)));
            }
            PipelineEvent::PipelineComplete { .. } => self.is_over = true,
            PipelineEvent::PipelineError { message } => self.troubles.push(first_line(message)),
            _ => {}
        }
    }

    /// Takes in what had happened before the program was started. How long it took then is not known.
    pub(crate) fn catch_up<'a>(&mut self, events: impl Iterator<Item = &'a PipelineEvent>) {
        for event in events {
            self.take(event, Duration::ZERO);
        }
        let progress = self.progress();
        self.debating_since = self.debating_since.map(|_| (Duration::ZERO, progress));
        // What stopped the run then does not stop it now, be it that it came to an end.
        self.troubles.clear();
        self.is_over = false;
    }

    pub(crate) fn pay(&mut self, spent: Spent) {
        self.spent = spent;
    }

    /// What moves are called.
    pub(super) fn title(&self, move_id: &str) -> &str {
        MoveId::parse(move_id).ok().and_then(|it| self.moves.get(&it)).map_or("", |it| &it.title)
    }

    /// How many debates are over, and of how many.
    pub(super) fn debates(&self) -> (usize, usize) {
        let is_over = |it: &&Standing| matches!(it.state, State::Scored | State::Skipped);
        (self.moves.values().filter(is_over).count(), self.moves.len())
    }

    /// The scored moves in their order, as it is now.
    pub(super) fn ranking(&self) -> Ranking {
        rank(&self.scores, Vec::new(), self.cast.top_k)
    }

    /// How long the debates will take yet, if they go on as fast as they did so far.
    pub(super) fn remaining(&self, now: Duration) -> Option<Duration> {
        let (since, before) = self.debating_since.filter(|_| !self.is_over)?;
        let progress = self.progress();
        let (done, left) = (progress - before, self.moves.len() as f64 - progress);
        // Before a tenth of a debate is over, anything could be said.
        (done >= 0.1).then(|| now.saturating_sub(since).mul_f64((left / done).max(0.0)))
    }

    /// How many debates are over, with parts of debates.
    fn progress(&self) -> f64 {
        let steps = f64::from(2 * self.cast.rounds + 1);
        let part = |it: &Standing| match &it.state {
            State::Waits | State::Opened => 0.0,
            State::Scored | State::Skipped => 1.0,
            State::Debated { round, status, .. } => f64::from(turns(*round, *status)) / steps,
        };
        self.moves.values().map(part).sum()
    }

    /// These moves will be debated, and no others.
    fn expect(&mut self, artifacts: &[String]) {
        let ids = artifacts.iter().filter_map(|it| MoveId::parse(it.strip_suffix(".md")?).ok());
        let mut known = std::mem::take(&mut self.moves);
        self.moves = ids.map(|it| (it, known.remove(&it).unwrap_or_default())).collect();
    }

    /// All debates are over, those too that had their score before the program was started.
    fn settle(&mut self) {
        for standing in self.moves.values_mut().filter(|it| !matches!(it.state, State::Skipped)) {
            standing.state = State::Scored;
        }
    }

    fn agent(&mut self, layer: Layer, id: &str, work: Work) {
        let agents = &mut self.layers.entry(layer).or_default().agents;
        if let Some(agent) = agents.iter_mut().find(|it| it.id == id) {
            agent.work = work;
        }
    }

    fn standing(&mut self, event: &PipelineEvent) -> Option<&mut Standing> {
        Some(self.moves.entry(move_id(event)?).or_default())
    }

    fn set(&mut self, event: &PipelineEvent, state: State) {
        if let Some(standing) = self.standing(event) {
            standing.state = state;
        }
    }

    fn round(
        &mut self,
        event: &PipelineEvent,
        round: u32,
        status: RoundStatus,
        said: &BTreeMap<String, String>,
    ) {
        let is_critic =
            matches!(status, RoundStatus::CriticResponding | RoundStatus::CriticResponded);
        let heard = said.iter().next_back().map(|(log, words)| {
            let who = if is_critic { "critic" } else { self.cast.maker(log) };
            (who.to_owned(), first_line(words))
        });
        if let Some(standing) = self.standing(event) {
            let before = match &mut standing.state {
                State::Debated { last, .. } => last.take(),
                _ => None,
            };
            standing.state = State::Debated { round, status, last: heard.or(before) };
        }
    }
}

/// How many turns of a debate are over: two a round, the critic's and the decision makers'.
pub(super) fn turns(round: u32, status: RoundStatus) -> u32 {
    let of_round = match status {
        RoundStatus::CriticResponding => 0,
        RoundStatus::CriticResponded | RoundStatus::DmResponding => 1,
        RoundStatus::DmResponded => 2,
    };
    2 * round.saturating_sub(1) + of_round
}

fn move_id(event: &PipelineEvent) -> Option<MoveId> {
    MoveId::parse(event.move_id()?).ok()
}
