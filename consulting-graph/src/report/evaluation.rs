//! Evaluates the outcome of a run, without model calls.

use std::collections::BTreeMap;

use app_support::{plural::counted, terminal::escape_invisible_json};
use serde::{Deserialize, Serialize};

use super::{
    figures::{FigureChart, charts},
    isolation::isolation_notice,
    objection::{Objection, strongest_objection},
    outcome::Outcome,
};
use crate::{
    call,
    citation::{CitationChecker, Flag},
    data::{Company, Source, render},
    moves::{Move, MoveId},
    rank::{Drift, Ranking, Robustness, Severity, drift, kendall_tau, rank, robustness, severity},
    score::MoveScore,
    transcript::ConversationEntry,
    watch::{Compression, Observation, compression, length_bias, observe},
};

/// If the newest filing is older than this number of days, the report recommends newer figures. Companies file every
/// quarter, at most 90 days after its end.
const MAX_FILING_AGE_DAYS: i64 = 200;

/// The outcome of a run with its evaluation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Everything that the run produced.
    pub outcome: Outcome,
    pub ranking: Ranking,
    pub robustness: Robustness,
    /// How strict each decision maker is; `None` if there are too few scores.
    pub severity: Option<Severity>,
    /// How closely the scores are clustered.
    pub compression: Option<Compression>,
    /// Correlation between the score of a move and the length of its debate.
    pub length_bias: Option<f64>,
    /// How the debates changed the scores.
    pub drift: Vec<Drift>,
    /// The ranking by the scores before the debates.
    pub before: Ranking,
    /// Kendall's tau between the rankings before and after the debates.
    pub tau: Option<f64>,
    /// Unsupported citations and numbers.
    pub flags: Vec<Flag>,
    /// Defects of the debates.
    pub observations: Vec<Observation>,
    /// The strongest unanswered objection to each move, if there is one.
    #[serde(default)]
    pub objections: Vec<Objection>,
    /// Notice about debates that ran without isolation or with less isolation than the others, if there are any.
    #[serde(default)]
    pub isolation_notice: Option<String>,
    /// Source of the company's figures and its date.
    #[serde(default)]
    pub data_source: String,
    /// Charts of the company's figures. The first one summarizes the company.
    #[serde(default)]
    pub figures: Vec<FigureChart>,
    /// Origin of every statement value.
    pub provenance: Vec<(String, String)>,
}

impl Report {
    /// Creates the report by evaluating an outcome, without model calls.
    pub fn new(outcome: Outcome) -> Self {
        let ranking = rank(&outcome.scores, outcome.unscored.clone(), outcome.top_k);
        let severity = severity(&outcome.scores);
        let noise = severity.as_ref().map_or(0.0, |it| it.noise);
        let before = rank(&outcome.baselines, Vec::new(), outcome.top_k);
        let documents: Vec<&str> = outcome.documents.iter().map(String::as_str).collect();
        let checker = CitationChecker::new(&outcome.findings, &documents);
        Self {
            robustness: robustness(&ranking, &outcome.scores),
            compression: compression(&outcome.scores, noise),
            length_bias: length_bias(&debate_lengths(&outcome)),
            drift: drift(&outcome.baselines, &outcome.scores),
            tau: kendall_tau(&before, &ranking),
            flags: flags(&outcome, &checker),
            observations: observations(&outcome),
            objections: outcome
                .logs
                .iter()
                .filter_map(|(id, logs)| strongest_objection(*id, logs, &outcome.decision_makers))
                .collect(),
            isolation_notice: isolation_notice(&outcome.isolation, &outcome.isolation_by_move),
            data_source: outcome.company.source_notice(),
            figures: charts(&outcome.company),
            provenance: render::provenance(&outcome.company),
            before,
            severity,
            ranking,
            outcome,
        }
    }

    /// Serializes the report as JSON.
    pub fn json(&self) -> String {
        let json = serde_json::to_string(self);
        escape_invisible_json(&json.expect("a report serializes to JSON"))
    }

    /// Returns whether the run is incomplete, because some of its calls or debates failed.
    pub fn is_incomplete(&self) -> bool {
        !self.outcome.failures.is_empty()
    }

    /// Returns notices about what is missing in an incomplete run. They must be shown before the ranking.
    pub fn incomplete_notices(&self) -> Vec<String> {
        let outcome = &self.outcome;
        let mut notices = Vec::new();
        if let Some(first) = outcome.failures.first() {
            let failures = counted(outcome.failures.len(), "failure", "failures");
            let place = outcome.place_with_names(&first.place);
            let reason = first.reason.trim_end_matches('.');
            let advice = call::advice(&outcome.failures);
            notices.push(format!("Incomplete: {failures}, first {place}: {reason}; {advice}."));
        }
        if !outcome.missing.is_empty() {
            let ids: Vec<String> =
                outcome.missing.iter().map(|it| it.move_id.to_string()).collect();
            let mut agents: Vec<&str> =
                outcome.missing.iter().map(|it| outcome.agent_name(&it.agent_id)).collect();
            agents.dedup();
            let verb = if ids.len() == 1 { "is" } else { "are" };
            let mut notice = format!(
                "{} of {} moves {verb} missing: {}, from {}.",
                ids.len(),
                ids.len() + outcome.moves.len(),
                ids.join(", "),
                agents.join(", ")
            );
            let mut failures = outcome.failures.iter();
            let cause =
                failures.find(|it| outcome.missing.iter().any(|at| at.agent_id == it.place));
            // The first notice already names the first failure.
            if let Some(cause) = cause.filter(|it| outcome.failures.first() != Some(*it)) {
                let agent = outcome.agent_name(&cause.place);
                notice += &format!(" {agent}: {}.", cause.reason.trim_end_matches('.'));
            }
            notices.push(notice);
        }
        notices.extend(self.unscored_notice());
        notices
    }

    /// Returns a notice about old figures if the newest filing in the included snapshot is much older than the cut-off
    /// date of the run.
    pub fn outdated_notice(&self) -> Option<String> {
        let Company { source, as_of: newest, .. } = &self.outcome.company;
        let age = self.outcome.started_on?.signed_duration_since(*newest).num_days();
        (*source == Source::Snapshot && age > MAX_FILING_AGE_DAYS).then(|| {
            format!("The newest filing is from {newest}; use --data edgar for newer figures.")
        })
    }

    /// Returns a notice about moves without a score, if there are any.
    fn unscored_notice(&self) -> Option<String> {
        let first = self.ranking.unscored.first()?;
        let (n, of) = (self.ranking.unscored.len(), self.outcome.moves.len());
        let ids: Vec<String> =
            self.ranking.unscored.iter().map(|it| it.move_id.to_string()).collect();
        let (has, is) = if n == 1 { ("has", "is") } else { ("have", "are") };
        Some(format!(
            "{n} of {of} moves {has} no score and {is} not ranked: {}. {}: {}.",
            ids.join(", "),
            first.move_id,
            first.reason.trim_end_matches('.')
        ))
    }

    pub(super) fn is_synthetic(&self) -> bool {
        self.outcome.company.source == Source::Synthetic
    }
}

fn debate_lengths(outcome: &Outcome) -> Vec<(MoveScore, usize)> {
    let length = |it: &MoveScore| {
        let logs = outcome.logs.get(&it.move_id)?;
        Some((it.clone(), logs.values().flatten().map(|it| it.content.chars().count()).sum()))
    };
    outcome.scores.iter().filter_map(length).collect()
}

fn flags(outcome: &Outcome, checker: &CitationChecker) -> Vec<Flag> {
    let of_move = |it: &Move| {
        let logs = outcome.logs.get(&it.move_id).into_iter().flatten();
        let in_logs = logs.flat_map(|(name, entries)| checker.check_log(it, name, entries));
        checker.check_move(it).into_iter().chain(in_logs).collect::<Vec<_>>()
    };
    let in_documents =
        outcome.narrated.iter().flat_map(|(name, it)| checker.check_document(name, it));
    let in_findings = outcome.findings.iter().flat_map(|it| checker.check_findings(it));
    in_documents.chain(in_findings).chain(outcome.moves.iter().flat_map(of_move)).collect()
}

fn observations(outcome: &Outcome) -> Vec<Observation> {
    let of_move = |(id, logs): (&MoveId, &BTreeMap<String, Vec<ConversationEntry>>)| {
        logs.iter().flat_map(|(name, entries)| observe(*id, name, entries)).collect::<Vec<_>>()
    };
    outcome.logs.iter().flat_map(of_move).collect()
}
