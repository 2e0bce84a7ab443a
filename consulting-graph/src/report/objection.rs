//! Finds objections that were not answered in a debate, without model calls.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{
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

/// Returns the strongest unanswered objection to a move.
///
/// An objection is a sentence of the critic that cites a finding. It is unanswered if the decision maker cites none of
/// its findings in a later turn of the same debate. The strongest objection is the one whose findings are unanswered in
/// most debates; among these, the latest one.
pub fn strongest_objection(
    move_id: MoveId,
    logs: &BTreeMap<String, Vec<ConversationEntry>>,
) -> Option<Objection> {
    let unanswered: Vec<(&ConversationEntry, &str, BTreeSet<FindingId>, String)> = logs
        .values()
        .flat_map(|log| {
            let maker = log.iter().find_map(|it| match &it.role {
                Speaker::DecisionMaker(id) => Some(id.clone()),
                Speaker::Critic => None,
            });
            unanswered(log).into_iter().map(move |(entry, text, findings)| {
                (entry, text, findings, maker.clone().unwrap_or_default())
            })
        })
        .collect();
    let debates = |findings: &BTreeSet<FindingId>| {
        let same = unanswered.iter().filter(|it| !it.2.is_disjoint(findings));
        same.map(|it| &it.3).collect::<BTreeSet<_>>().len()
    };
    let objections = unanswered.iter().map(|(entry, text, findings, maker)| Objection {
        move_id,
        maker: maker.clone(),
        round: entry.round,
        text: (*text).to_owned(),
        debates: debates(findings),
    });
    objections.max_by_key(|it| (it.debates, it.round))
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
