//! Finds objections that were not answered in a debate, without model calls.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{
    config::Persona,
    debate,
    finding::{FindingId, find_citations},
    moves::MoveId,
    sentence::sentences,
    transcript::{ConversationEntry, Speaker},
};

/// An objection of the critic that a decision maker did not answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Objection {
    pub move_id: MoveId,
    /// Id of the decision maker.
    pub maker: String,
    pub round: u32,
    /// The critic's sentence.
    pub text: String,
    /// Number of debates about the move in which findings of this objection were left unanswered.
    pub debates: usize,
}

/// Returns the strongest unanswered objection to a move. `makers` are the decision makers of the run, in the order of
/// their transcripts `i1`, `i2`, …
///
/// An objection is a sentence of the critic that cites a finding. It is unanswered if the decision maker cites none of
/// its findings in a later turn of the same debate. The strongest objection is the one whose findings are unanswered in
/// most debates; among these, the latest one.
pub fn strongest_objection(
    move_id: MoveId,
    logs: &BTreeMap<String, Vec<ConversationEntry>>,
    makers: &[Persona],
) -> Option<Objection> {
    let unanswered: Vec<(&ConversationEntry, &str, BTreeSet<FindingId>, &String)> = logs
        .iter()
        .flat_map(|(name, log)| {
            let unanswered = unanswered(log).into_iter();
            unanswered.map(move |(entry, text, findings)| (entry, text, findings, name))
        })
        .collect();
    // A decision maker whose first call failed has no turns, so the name of the transcript identifies it.
    let names = debate::log_names(makers.len());
    let maker = |name: &String| {
        let maker = names.iter().zip(makers).find(|it| it.0 == name);
        maker.map_or_else(|| name.clone(), |it| it.1.id.clone())
    };
    let debates = |findings: &BTreeSet<FindingId>| {
        let same = unanswered.iter().filter(|it| !it.2.is_disjoint(findings));
        same.map(|it| it.3).collect::<BTreeSet<_>>().len()
    };
    let objections = unanswered.iter().map(|(entry, text, findings, name)| Objection {
        move_id,
        maker: maker(name),
        round: entry.round,
        text: (*text).to_owned(),
        debates: debates(findings),
    });
    objections.max_by_key(|it| (it.debates, it.round))
}

/// Returns whether the critic cites a finding in one of the debates about a move. Answers cannot be matched to
/// objections that cite no finding.
pub(super) fn cites_findings(logs: &BTreeMap<String, Vec<ConversationEntry>>) -> bool {
    let mut turns = logs.values().flatten().filter(|it| it.role == Speaker::Critic);
    turns.any(|it| !cited(&it.content).is_empty())
}

/// Returns the unanswered objections in one debate, with their findings.
fn unanswered(log: &[ConversationEntry]) -> Vec<(&ConversationEntry, &str, BTreeSet<FindingId>)> {
    let mut unanswered = Vec::new();
    let mut answered = BTreeSet::new();
    for entry in log.iter().rev() {
        if entry.role != Speaker::Critic {
            answered.extend(cited(&entry.content));
            continue;
        }
        for sentence in sentences(&entry.content) {
            let findings = cited(sentence);
            if !findings.is_empty() && findings.is_disjoint(&answered) {
                unanswered.push((entry, sentence, findings));
            }
        }
    }
    unanswered
}

fn cited(text: &str) -> BTreeSet<FindingId> {
    find_citations(text).into_iter().filter_map(|it| it.1.ok()).collect()
}
