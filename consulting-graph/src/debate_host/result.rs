//! Result of a debate. The result comes from a guest, so it is validated before it is used.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{
    call::{CallUsage, Failure, FailureKind},
    config::{Config, Group},
    debate::{self, SandboxState},
    event::PipelineEvent,
    moves::MoveId,
    report::Isolation,
    score::{MakerScore, Mark, SCORE_RANGE},
    transcript::{ConversationEntry, Speaker},
};

/// Maximum number of tokens that one call may report. No model has a larger context window.
const MAX_TOKENS: u64 = 100_000_000;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct DebateResult {
    /// The transcripts by name.
    pub(crate) logs: BTreeMap<String, Vec<ConversationEntry>>,
    pub(crate) scores: BTreeMap<String, MakerScore>,
    pub(crate) baseline: BTreeMap<String, MakerScore>,
    pub(crate) marks: BTreeSet<Mark>,
    pub(crate) calls: Vec<CallUsage>,
    pub(crate) failures: Vec<Failure>,
    pub(crate) status_updates: Vec<PipelineEvent>,
    pub(crate) current_round: u32,
    pub(crate) ended_early: Option<String>,
    #[serde(flatten)]
    pub(crate) isolation: Isolation,
    /// Reason why the move has no score. `None` if it has one.
    pub(crate) problem: Option<String>,
}

impl DebateResult {
    /// Returns the result of a failed debate, which has no score.
    pub(super) fn failed(problem: impl Into<String>) -> Self {
        let problem = problem.into();
        let (place, kind) = ("sandbox".to_owned(), FailureKind::Sandbox);
        let failures = vec![Failure { place, kind, reason: problem.clone() }];
        Self { problem: Some(problem), failures, ..Self::default() }
    }

    /// Validates the state of a debate, which comes from a guest. Returns the problem if it is not valid.
    pub(super) fn from_state(
        state: SandboxState,
        config: &Config,
        move_id: MoveId,
    ) -> Result<Self, String> {
        let result = Self {
            logs: debate::transcripts(&state.turns),
            scores: state.scores,
            baseline: state.baseline,
            marks: state.marks,
            calls: state.calls,
            failures: state.failures,
            status_updates: state.status_updates,
            current_round: state.current_round,
            ended_early: state.ended_early,
            ..Self::default()
        };
        result.validate(config, &move_id.to_string())
    }

    fn validate(mut self, config: &Config, move_id: &str) -> Result<Self, String> {
        let invalid = |what: &str| Err(format!("the sandbox sent invalid {what}"));
        if self.current_round > config.rounds || !self.has_valid_logs(config) {
            return invalid("transcripts");
        }
        if !are_valid_scores(&self.scores, config) || !are_valid_scores(&self.baseline, config) {
            return invalid("scores");
        }
        let requests = config.calls_per_move() + 3 * config.decision_makers.len() as u64;
        // Each request may be repeated with a shorter prompt, and each of these prompts may contain a summary.
        let max_calls = requests * (2 + u64::from(debate::MAX_SHORTENED));
        let is_valid_call = |it: &CallUsage| {
            it.move_id.as_deref() == Some(move_id)
                && matches!(
                    it.group,
                    Group::Critic | Group::DecisionMakers | Group::Scoring | Group::Summaries
                )
                && it.input.max(it.output).max(it.cached) <= MAX_TOKENS
        };
        if self.calls.len() as u64 > max_calls || !self.calls.iter().all(is_valid_call) {
            return invalid("calls");
        }
        if self.failures.len() as u64 > max_calls {
            return invalid("failures");
        }
        self.status_updates.retain(|it| is_allowed_from_guest(it, move_id, config));
        self.marks.retain(|it| *it != Mark::NotIsolated);
        if self.current_round == 0 {
            let reason = self.failures.first().map(|it| it.describe(config));
            let reason = reason.unwrap_or_else(|| "the critic did not answer".to_owned());
            self.problem = Some(format!("the move was not debated: {reason}"));
        } else if self.scores.is_empty() {
            let reason = self.failures.last().map(|it| it.describe(config));
            let reason = reason.unwrap_or_else(|| "no decision maker answered".to_owned());
            self.problem = Some(format!("the move was not scored: {reason}"));
        }
        if self.current_round < config.rounds {
            self.marks.insert(Mark::Incomplete);
        }
        Ok(self)
    }

    fn has_valid_logs(&self, config: &Config) -> bool {
        let names = debate::log_names(config.decision_makers.len());
        self.logs.iter().all(|(name, log)| {
            let maker = names.iter().position(|it| it == name);
            let Some(maker) = maker.and_then(|it| config.decision_makers.get(it)) else {
                return false;
            };
            let is_valid_entry = |it: &ConversationEntry| {
                (1..=config.rounds).contains(&it.round)
                    && (it.role == Speaker::Critic || it.role.to_string() == maker.id)
            };
            log.iter().all(is_valid_entry)
        })
    }
}

/// Returns whether a guest may send this event. A guest may report only rounds of its own debate.
pub(super) fn is_allowed_from_guest(event: &PipelineEvent, own_id: &str, config: &Config) -> bool {
    matches!(event, PipelineEvent::SandboxRound { move_id, round, .. }
        if move_id == own_id && (1..=config.rounds).contains(round))
}

fn are_valid_scores(scores: &BTreeMap<String, MakerScore>, config: &Config) -> bool {
    let metrics: BTreeSet<&str> = config.metric_ids().into_iter().collect();
    scores.iter().all(|(maker, score)| {
        config.decision_makers.iter().any(|it| it.id == *maker)
            && score.metrics.keys().map(String::as_str).collect::<BTreeSet<_>>() == metrics
            && score.metrics.values().all(|it| SCORE_RANGE.contains(it))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::DebateResult;
    use crate::{
        config::{Config, DEFAULT},
        moves::MoveId,
    };

    fn scores(impact: u8) -> Value {
        json!({ "impact": impact, "feasibility": 6, "risk_adjusted_return": 7, "strategic_alignment": 5,
            "reasoning": "-", "score_source": "schema", "adjustments": [] })
    }

    fn state() -> Value {
        json!({
            "turns": [{ "log": "i1", "role": "critic", "content": "No.", "round": 1 }],
            "scores": { "D1": scores(8), "D2": scores(7), "D3": scores(6) },
            "current_round": 10, "calls": [], "marks": [],
            "status_updates": [
                { "type": "sandbox_round", "move": "m4", "round": 1, "status": "dm_responded" },
                { "type": "sandbox_round", "move": "m5", "round": 1, "status": "dm_responded" },
                { "type": "pipeline_complete", "recommended": ["m4"], "other": [] },
            ],
        })
    }

    fn read(state: Value) -> Result<DebateResult, String> {
        let state = serde_json::from_value(state).unwrap();
        DebateResult::from_state(state, &Config::parse(DEFAULT).unwrap(), MoveId(4))
    }

    #[test]
    fn valid_results_keep_only_events_of_their_own_rounds() {
        let result = read(state()).unwrap();
        assert_eq!(result.problem, None);
        assert_eq!(result.status_updates.len(), 1);
    }

    #[test]
    fn invalid_states_are_rejected() {
        let invalid_values: [(&str, Value); 6] = [
            ("/turns/0/log", json!("../../x")),
            ("/turns/0/role", json!("D2")),
            ("/scores/D1", scores(200)),
            ("/scores", json!({ "D9": scores(8) })),
            ("/current_round", json!(4_294_967_295_u32)),
            (
                "/calls",
                json!([{ "agent_id": "D1", "group": "analysts", "model": "x", "move_id": "m4", "round": 1,
                "input": 1, "cached": 0, "output": 1, "cost": null }]),
            ),
        ];
        for (place, value) in invalid_values {
            let mut state = state();
            *state.pointer_mut(place).unwrap() = value;
            let problem = read(state).unwrap_err();
            assert!(problem.contains("sent invalid"), "{place}: {problem}");
        }
    }
}
