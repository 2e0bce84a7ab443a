//! What came of a debate. A guest tells it, so nothing of it is taken without a look.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    ask::Paid,
    config::{Config, Group},
    debate,
    event::PipelineEvent,
    moves::MoveId,
    score::{MakerScore, Mark, RANGE},
    transcript::{ConversationEntry, Speaker},
};

/// No call has more tokens: what is beyond is no count of any model's.
const MOST_TOKENS: u64 = 100_000_000;

/// What came of a debate.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Settled {
    pub(crate) logs: BTreeMap<String, Vec<ConversationEntry>>,
    pub(crate) scores: BTreeMap<String, MakerScore>,
    pub(crate) baseline: BTreeMap<String, MakerScore>,
    pub(crate) marks: BTreeSet<Mark>,
    pub(crate) calls: Vec<Paid>,
    pub(crate) warnings: Vec<String>,
    pub(crate) status_updates: Vec<PipelineEvent>,
    pub(crate) current_round: u32,
    pub(crate) ended_early: Option<String>,
    /// What it ran in.
    pub(crate) backend: String,
    /// Whether that kept it apart from the host.
    pub(crate) isolated: bool,
    /// Why there is no score.
    pub(crate) problem: Option<String>,
}

impl Settled {
    /// A debate that came to nothing.
    pub(super) fn failed(problem: impl Into<String>) -> Self {
        Self { problem: Some(problem.into()), ..Self::default() }
    }

    /// Reads a debate's last state, and refuses what cannot be.
    pub(super) fn read(state: Value, config: &Config, move_id: MoveId) -> Self {
        let read = serde_json::from_value::<Self>(state)
            .map_err(|error| format!("what the debate came to cannot be read: {error}"));
        match read.and_then(|it| it.checked(config, &move_id.to_string())) {
            Ok(settled) => settled,
            Err(problem) => Self::failed(problem),
        }
    }

    fn checked(mut self, config: &Config, own: &str) -> Result<Self, String> {
        let wrong = |what: &str| Err(format!("the sandbox tells what cannot be: {what}"));
        if self.current_round > config.rounds || !self.logs_are_possible(config) {
            return wrong("a conversation");
        }
        if !are_scores(&self.scores, config) || !are_scores(&self.baseline, config) {
            return wrong("scores");
        }
        let most = config.calls_per_move() + 3 * config.decision_makers.len() as u64;
        let is_own = |it: &Paid| {
            it.move_id.as_deref() == Some(own)
                && matches!(it.group, Group::Critic | Group::DecisionMakers | Group::Scoring)
                && it.input.max(it.output).max(it.cached) <= MOST_TOKENS
        };
        if self.calls.len() as u64 > most || !self.calls.iter().all(is_own) {
            return wrong("calls");
        }
        self.status_updates.retain(|it| is_told_by_guests(it, own, config));
        self.marks.retain(|it| *it != Mark::NotIsolated);
        (self.backend, self.isolated, self.problem) = (String::new(), false, None);
        if self.current_round == 0 {
            let why = self.warnings.first().map_or("the critic did not answer", String::as_str);
            self.problem = Some(format!("it was not debated: {why}"));
        } else if self.scores.is_empty() {
            let why = self.warnings.last().map_or("nobody answered", String::as_str);
            self.problem = Some(format!("it was not scored: {why}"));
        }
        if self.current_round < config.rounds {
            self.marks.insert(Mark::Incomplete);
        }
        Ok(self)
    }

    fn logs_are_possible(&self, config: &Config) -> bool {
        let names = debate::log_names(config.decision_makers.len());
        self.logs.iter().all(|(name, log)| {
            let maker = names.iter().position(|it| it == name);
            let Some(maker) = maker.and_then(|it| config.decision_makers.get(it)) else {
                return false;
            };
            let is_possible = |it: &ConversationEntry| {
                (1..=config.rounds).contains(&it.round)
                    && (it.role == Speaker::Critic || it.role.to_string() == maker.id)
            };
            log.iter().all(is_possible)
        })
    }
}

/// Whether a guest may tell this: a round of its own debate.
pub(super) fn is_told_by_guests(event: &PipelineEvent, own: &str, config: &Config) -> bool {
    matches!(event, PipelineEvent::SandboxRound { move_id, round, .. }
        if move_id == own && (1..=config.rounds).contains(round))
}

fn are_scores(scores: &BTreeMap<String, MakerScore>, config: &Config) -> bool {
    let metrics: BTreeSet<&str> = config.metric_ids().into_iter().collect();
    scores.iter().all(|(maker, score)| {
        config.decision_makers.iter().any(|it| it.id == *maker)
            && score.metrics.keys().map(String::as_str).collect::<BTreeSet<_>>() == metrics
            && score.metrics.values().all(|it| RANGE.contains(it))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Settled;
    use crate::{
        config::{Config, DEFAULT},
        moves::MoveId,
    };

    fn scores(impact: u8) -> Value {
        json!({ "impact": impact, "feasibility": 6, "risk_adjusted_return": 7, "strategic_alignment": 5,
            "reasoning": "-", "score_source": "schema", "adjustments": [] })
    }

    fn state() -> Value {
        let turn = json!({ "role": "critic", "content": "No.", "round": 1 });
        json!({
            "logs": { "i1": [turn], "i2": [], "i3": [] },
            "scores": { "D1": scores(8), "D2": scores(7), "D3": scores(6) },
            "current_round": 10, "calls": [], "marks": [],
            "status_updates": [
                { "type": "sandbox_round", "move": "m4", "round": 1, "status": "dm_responded" },
                { "type": "sandbox_round", "move": "m5", "round": 1, "status": "dm_responded" },
                { "type": "pipeline_complete", "recommended": ["m4"], "other": [] },
            ],
        })
    }

    fn read(state: Value) -> Settled {
        Settled::read(state, &Config::parse(DEFAULT).unwrap(), MoveId(4))
    }

    #[test]
    fn an_honest_guest_is_believed_and_tells_of_its_own_rounds_only() {
        let settled = read(state());
        assert_eq!(settled.problem, None);
        assert_eq!(settled.status_updates.len(), 1);
    }

    #[test]
    fn a_guest_that_lies_has_no_score() {
        let lies: [(&str, Value); 6] = [
            ("/logs", json!({ "../../x": [] })),
            ("/logs/i1", json!([{ "role": "D2", "content": "", "round": 1 }])),
            ("/scores/D1", scores(200)),
            ("/scores", json!({ "D9": scores(8) })),
            ("/current_round", json!(4_294_967_295_u32)),
            (
                "/calls",
                json!([{ "who": "D1", "group": "analysts", "model": "x", "move_id": "m4", "round": 1,
                "input": 1, "cached": 0, "output": 1, "cost": null }]),
            ),
        ];
        for (place, lie) in lies {
            let mut state = state();
            *state.pointer_mut(place).unwrap() = lie;
            let problem = read(state).problem.unwrap_or_default();
            assert!(problem.contains("cannot be"), "{place}: {problem}");
        }
    }
}
