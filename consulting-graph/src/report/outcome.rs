//! Everything that a run produced.

use std::collections::BTreeMap;

use app_support::plural::counted;
use chrono::NaiveDate;
use serde::{Deserialize, Serialize};

use super::isolation::{self, Isolation};
use crate::{
    call::Failure,
    config::{Metric, Persona, replace_ids},
    data::Company,
    debate,
    finding::Findings,
    moves::{MissingMove, Move, MoveId},
    rank::Unscored,
    score::MoveScore,
    transcript::ConversationEntry,
};

/// Everything that a consulting run produced.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub run_id: String,
    /// Day from which the timeframes of steps are counted: the cut-off date of the run, which is today by default.
    #[serde(default)]
    pub started_on: Option<NaiveDate>,
    pub company: Company,
    /// The two source documents as computed from the data. The findings are derived from these documents, and numbers
    /// are checked against them.
    pub documents: Vec<String>,
    /// The two source documents as narrated by the synthesizers, by file name. A narration that failed or was omitted
    /// is absent.
    pub narrated: BTreeMap<String, String>,
    /// The two sets of findings, F1 and F2.
    pub findings: Vec<Findings>,
    pub moves: Vec<Move>,
    /// Moves that analysts did not deliver.
    pub missing: Vec<MissingMove>,
    pub scores: Vec<MoveScore>,
    /// The scores before the debates, if requested.
    pub baselines: Vec<MoveScore>,
    /// Moves whose debate failed.
    pub unscored: Vec<Unscored>,
    /// The logs of the debates: by move, then by name, such as `i1`.
    pub logs: BTreeMap<MoveId, BTreeMap<String, Vec<ConversationEntry>>>,
    /// The kind of model that answered the calls.
    pub provider: Provider,
    /// How the debates were isolated from the host.
    pub isolation: Isolation,
    /// How each debate was isolated from the host. Empty in reports of older versions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub isolation_by_move: BTreeMap<MoveId, Isolation>,
    /// For a fork with changed settings, states which moves were debated with the settings of the original run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mixed_settings: Option<String>,
    pub spending: Vec<SpendingEntry>,
    pub spending_by_move: Vec<SpendingEntry>,
    /// Spending on each round, summed over all debates.
    pub spending_by_round: Vec<SpendingEntry>,
    /// For a fork, the spending on the calls that the fork made itself, without the calls inherited from the original
    /// run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_spending: Option<SpendingEntry>,
    /// Calls and debates that failed. The run is incomplete if there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failure>,
    /// Warnings that are shown in the report.
    pub warnings: Vec<String>,
    /// Versions, models, prompt hashes and seeds.
    pub manifest: BTreeMap<String, String>,
    /// Names of all agents, by id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub agents: BTreeMap<String, String>,
    /// The personas that scored the moves.
    pub decision_makers: Vec<Persona>,
    /// The scoring criteria.
    pub metrics: Vec<Metric>,
    /// Number of moves to recommend.
    pub top_k: usize,
    /// Highest total score that a move can get.
    pub best_score: usize,
}

/// The kind of model that answered the calls of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Provider {
    Scripted,
    Models { name: String },
}

/// Spending of one role, move or round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SpendingEntry {
    /// The role, move or round.
    pub name: String,
    pub calls: u64,
    /// Number of calls whose tokens the provider did not report. The sums do not include them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub uncounted_calls: u64,
    pub input_tokens: u64,
    /// Number of input tokens read from the provider's prompt cache.
    pub cached_tokens: u64,
    pub output_tokens: u64,
    /// Cost in dollars, if the price is known.
    pub dollars: Option<f64>,
}

impl Outcome {
    /// Returns the move with the given id.
    pub fn find_move(&self, id: MoveId) -> Option<&Move> {
        self.moves.iter().find(|it| it.move_id == id)
    }

    /// Returns the name of an agent, or its id if the name is unknown.
    pub(crate) fn agent_name<'a>(&'a self, id: &'a str) -> &'a str {
        self.agents.get(id).map_or(id, String::as_str)
    }

    /// Replaces ids in the description of a location by names: ids of agents, as in `m3, round 2, critic to D1`, and
    /// ids of transcripts, as in `i1, round 2, critic`.
    pub(crate) fn place_with_names(&self, place: &str) -> String {
        let logs = debate::log_names(self.decision_makers.len());
        replace_ids(place, |id| {
            let maker = logs.iter().zip(&self.decision_makers).find(|it| it.0 == id);
            maker.map_or_else(
                || self.agent_name(id).to_owned(),
                |it| format!("debate with {}", it.1.name),
            )
        })
    }

    /// Describes the sandboxes of the debates. Names the moves whose debates had less isolation than the others.
    pub fn sandboxes_text(&self) -> String {
        isolation::sandboxes_text(&self.isolation, &self.isolation_by_move)
    }

    /// Returns the score of a move after its debate.
    pub(crate) fn find_score(&self, id: MoveId) -> Option<&MoveScore> {
        self.scores.iter().find(|it| it.move_id == id)
    }
}

impl SpendingEntry {
    /// Creates an entry without any calls.
    pub(crate) fn none(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            calls: 0,
            uncounted_calls: 0,
            input_tokens: 0,
            cached_tokens: 0,
            output_tokens: 0,
            dollars: Some(0.0),
        }
    }

    /// Returns the spending of one call with these numbers of input, cached and output tokens.
    pub(crate) fn for_call([input, cached, output]: [u64; 3], dollars: Option<f64>) -> Self {
        Self {
            name: String::new(),
            calls: 1,
            uncounted_calls: u64::from(input == 0),
            input_tokens: input,
            cached_tokens: cached,
            output_tokens: output,
            dollars,
        }
    }

    /// Adds other spending. If one of the two costs is unknown, the sum is unknown.
    pub(crate) fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.uncounted_calls += other.uncounted_calls;
        self.input_tokens += other.input_tokens;
        self.cached_tokens += other.cached_tokens;
        self.output_tokens += other.output_tokens;
        self.dollars = self.dollars.zip(other.dollars).map(|(sum, it)| sum + it);
    }

    /// Returns the spending on answers that are not part of the result: this spending minus `used`, the spending on the
    /// result.
    pub(crate) fn minus(&self, used: &Self) -> Self {
        let dollars = self.dollars.zip(used.dollars).map(|(all, used)| (all - used).max(0.0));
        Self {
            name: "not part of the result".to_owned(),
            calls: self.calls.saturating_sub(used.calls),
            uncounted_calls: self.uncounted_calls.saturating_sub(used.uncounted_calls),
            input_tokens: self.input_tokens.saturating_sub(used.input_tokens),
            cached_tokens: self.cached_tokens.saturating_sub(used.cached_tokens),
            output_tokens: self.output_tokens.saturating_sub(used.output_tokens),
            dollars,
        }
    }

    /// Names the calls whose tokens are unknown, if there are any.
    pub fn uncounted_notice(&self) -> Option<String> {
        let calls = (self.uncounted_calls > 0).then_some(self.uncounted_calls)?;
        let calls = counted(calls, "call", "calls");
        Some(format!("not including {calls} whose tokens the provider did not report"))
    }

    /// Returns the sum of several entries.
    pub fn total(entries: &[Self]) -> Self {
        let mut total = Self::none("total");
        entries.iter().for_each(|it| total.add(it));
        total
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde requires")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
