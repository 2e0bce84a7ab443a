//! What a run leaves behind for people to read: one value, shown as markdown, as a page of HTML, and as JSON.

mod chart;
mod document;
mod html;
mod markdown;
mod sections;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    citation::{Evidence, Flag},
    config::{Metric, Persona},
    data::{Company, Source, render},
    fence::visible_json,
    finding::Findings,
    moves::{MissingMove, Move, MoveId},
    rank::{
        Drift, Ranking, Robustness, Severity, Unscored, drift, kendall_tau, rank, robustness,
        severity,
    },
    score::MoveScore,
    transcript::ConversationEntry,
    watch::{Compression, Observation, compression, length_bias, observe},
};

/// What a run came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The run's id.
    pub run_id: String,
    /// The company.
    pub company: Company,
    /// The data as they were computed, in the form of the two documents: what numbers are checked against.
    pub documents: Vec<String>,
    /// The two documents as they were told from the data, which the findings were drawn from, by the names of their
    /// files.
    pub narrated: BTreeMap<String, String>,
    /// F1 and F2.
    pub findings: Vec<Findings>,
    /// The moves.
    pub moves: Vec<Move>,
    /// Moves that analysts owed.
    pub missing: Vec<MissingMove>,
    /// The scores after the debates.
    pub scores: Vec<MoveScore>,
    /// The scores before the debates, where they were asked for.
    pub baselines: Vec<MoveScore>,
    /// Moves whose debate failed.
    pub unscored: Vec<Unscored>,
    /// The debates: for each move its logs by name, like `i1`.
    pub logs: BTreeMap<MoveId, BTreeMap<String, Vec<ConversationEntry>>>,
    /// Who spoke for the models.
    pub provider: Provider,
    /// Where the debates ran.
    pub isolation: Isolation,
    /// What was spent, by role.
    pub spending: Vec<Spending>,
    /// What was spent on each move's debate.
    pub spending_by_move: Vec<Spending>,
    /// What was spent in each round, over all debates.
    pub spending_by_round: Vec<Spending>,
    /// What a run that branched off paid itself; the rest was paid by the run that it shares it with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_spending: Option<Spending>,
    /// What did not go as it should.
    pub warnings: Vec<String>,
    /// Versions, models, hashes of prompts, seeds.
    pub manifest: BTreeMap<String, String>,
    /// Who scored.
    pub decision_makers: Vec<Persona>,
    /// What was scored.
    pub metrics: Vec<Metric>,
    /// How many moves to recommend.
    pub top_k: usize,
    /// The best total a move can have.
    pub best_score: usize,
}

/// Who spoke for the models.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Provider {
    /// A program that makes answers up.
    Scripted,
    /// Models.
    Models {
        /// The provider's name.
        name: String,
    },
}

/// Where the debates ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Isolation {
    /// The back end of the sandbox.
    pub backend: String,
    /// Whether it kept the debates apart from the host.
    pub isolated: bool,
}

/// What one role spent, or what was spent on one thing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spending {
    /// The role, the move or the round.
    pub name: String,
    /// Calls that were paid for.
    pub calls: u64,
    /// Tokens that went in.
    pub input_tokens: u64,
    /// Of these, tokens that the provider had kept.
    pub cached_tokens: u64,
    /// Tokens that came out.
    pub output_tokens: u64,
    /// Dollars, where the price is known.
    pub dollars: Option<f64>,
}

/// The outcome of a run and all that follows from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// What the run came to.
    pub outcome: Outcome,
    /// The moves in order.
    pub ranking: Ranking,
    /// How far the order can be trusted.
    pub robustness: Robustness,
    /// How strict the decision makers are.
    pub severity: Option<Severity>,
    /// How close together the scores are.
    pub compression: Option<Compression>,
    /// How far scores grow with the length of a debate.
    pub length_bias: Option<f64>,
    /// What the debates changed.
    pub drift: Vec<Drift>,
    /// The moves in the order of the scores before the debates: what a mere vote would have given.
    pub before: Ranking,
    /// How alike the rankings before and after the debates are.
    pub tau: Option<f64>,
    /// Citations and numbers that nothing supports.
    pub flags: Vec<Flag>,
    /// What went wrong in debates.
    pub observations: Vec<Observation>,
    /// Where the numbers come from.
    pub provenance: Vec<(String, String)>,
}

impl Report {
    /// Works out all that follows from an outcome. No call is made for it.
    pub fn new(outcome: Outcome) -> Self {
        let ranking = rank(&outcome.scores, outcome.unscored.clone(), outcome.top_k);
        let severity = severity(&outcome.scores);
        let noise = severity.as_ref().map_or(0.0, |it| it.noise);
        let before = rank(&outcome.baselines, Vec::new(), outcome.top_k);
        let documents: Vec<&str> = outcome.documents.iter().map(String::as_str).collect();
        let evidence = Evidence::new(&outcome.findings, &documents);
        Self {
            robustness: robustness(&ranking, &outcome.scores),
            compression: compression(&outcome.scores, noise),
            length_bias: length_bias(&lengths(&outcome)),
            drift: drift(&outcome.baselines, &outcome.scores),
            tau: kendall_tau(&before, &ranking),
            flags: flags(&outcome, &evidence),
            observations: observations(&outcome),
            provenance: render::provenance(&outcome.company),
            before,
            severity,
            ranking,
            outcome,
        }
    }

    /// The report in markdown.
    pub fn markdown(&self) -> String {
        markdown::render(&sections::document(self))
    }

    /// The report as a page of HTML that loads nothing and runs nothing.
    pub fn html(&self) -> String {
        html::render(&sections::title(self), &sections::document(self))
    }

    /// The report as JSON.
    pub fn json(&self) -> String {
        let json = serde_json::to_string_pretty(self);
        visible_json(&json.expect("a report holds nothing that JSON cannot"))
    }

    /// That moves have no score, where some have none: whoever reads the ranking has to know it first.
    pub fn unscored_notice(&self) -> Option<String> {
        let first = self.ranking.unscored.first()?;
        let (n, of) = (self.ranking.unscored.len(), self.outcome.moves.len());
        let ids: Vec<String> =
            self.ranking.unscored.iter().map(|it| it.move_id.to_string()).collect();
        let has = if n == 1 { "has" } else { "have" };
        Some(format!(
            "{n} of {of} moves {has} no score and so no rank: {}. {}: {}.",
            ids.join(", "),
            first.move_id,
            first.reason.trim_end_matches('.')
        ))
    }

    fn is_synthetic(&self) -> bool {
        self.outcome.company.source == Source::Synthetic
    }
}

fn lengths(outcome: &Outcome) -> Vec<(MoveScore, usize)> {
    let length = |it: &MoveScore| {
        let logs = outcome.logs.get(&it.move_id)?;
        Some((it.clone(), logs.values().flatten().map(|it| it.content.chars().count()).sum()))
    };
    outcome.scores.iter().filter_map(length).collect()
}

fn flags(outcome: &Outcome, evidence: &Evidence) -> Vec<Flag> {
    let of_move = |it: &Move| {
        let logs = outcome.logs.get(&it.move_id).into_iter().flatten();
        let in_logs = logs.flat_map(|(name, entries)| evidence.check_log(it, name, entries));
        evidence.check_move(it).into_iter().chain(in_logs).collect::<Vec<_>>()
    };
    let told = outcome.narrated.iter().flat_map(|(name, it)| evidence.check_document(name, it));
    let found = outcome.findings.iter().flat_map(|it| evidence.check_findings(it));
    told.chain(found).chain(outcome.moves.iter().flat_map(of_move)).collect()
}

fn observations(outcome: &Outcome) -> Vec<Observation> {
    let of_move = |(id, logs): (&MoveId, &BTreeMap<String, Vec<ConversationEntry>>)| {
        logs.iter().flat_map(|(name, entries)| observe(*id, name, entries)).collect::<Vec<_>>()
    };
    outcome.logs.iter().flat_map(of_move).collect()
}
