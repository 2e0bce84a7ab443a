//! Checking by a program what the models cite: every `[F1-07]` and every number.
//!
//! A number is good when a finding that its sentence cites states it, or, in a sentence without citations, when any
//! finding or document does. Numbers that the move itself proposes (its steps, cost, measures and falsifiers) are plans
//! and not claims; whoever quotes them is right. Flags are shown and lower no score.

use serde::{Deserialize, Serialize};

use crate::{
    finding::{FindingId, Findings, cited},
    moves::{Move, MoveId},
    quantity::{Quantity, claims},
    sentence::sentences,
    transcript::ConversationEntry,
};

/// What texts are checked against.
#[derive(Debug, Clone)]
pub struct Evidence {
    findings: Vec<(FindingId, Vec<Quantity>)>,
    documents: Vec<Quantity>,
}

/// A citation or a number that nothing supports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flag {
    /// Where it stands.
    pub place: Place,
    /// What is written there.
    pub text: String,
    /// What is wrong with it.
    pub reason: Reason,
}

/// Where something is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// In which move, or in the debate about which.
    pub move_id: MoveId,
    /// In which part of it: `thesis`, or `i1, round 3, critic`.
    pub part: String,
    /// In which sentence of the part, from 1.
    pub sentence: usize,
}

/// Why a citation or a number is flagged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Reason {
    /// There is no such finding.
    UnknownFinding,
    /// The cited findings do not state the number, but others do.
    InOtherFindings {
        /// These do.
        findings: Vec<FindingId>,
    },
    /// The cited findings do not state the number; the documents they were drawn from do.
    OnlyInDocuments,
    /// Nothing states the number.
    Unsupported,
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::UnknownFinding => f.write_str("there is no such finding"),
            Self::InOtherFindings { findings } => {
                let ids: Vec<String> = findings.iter().map(FindingId::to_string).collect();
                write!(f, "not in the cited finding, but in {}", ids.join(", "))
            }
            Self::OnlyInDocuments => f.write_str("not in the cited finding, but in the data"),
            Self::Unsupported => f.write_str("in no finding and not in the data"),
        }
    }
}

impl Evidence {
    /// Reads the numbers of findings and of the documents behind them.
    pub fn new(findings: &[Findings], documents: &[&str]) -> Self {
        let numbers = |it: &crate::finding::Finding| {
            let quotes = it.draft.evidence.iter().flat_map(|it| claims(&it.quote));
            (it.id, claims(&it.draft.claim).into_iter().chain(quotes).collect())
        };
        Self {
            findings: findings.iter().flat_map(|it| &it.findings).map(numbers).collect(),
            documents: documents.iter().flat_map(|it| claims(it)).collect(),
        }
    }

    /// Checks what a move claims.
    pub fn check_move(&self, it: &Move) -> Vec<Flag> {
        let draft = &it.draft;
        let plans = plans(it);
        let mut parts = vec![
            ("title".to_owned(), &draft.title),
            ("thesis".to_owned(), &draft.thesis),
            ("why now".to_owned(), &draft.why_now),
            ("downside".to_owned(), &draft.downside),
            ("mitigation".to_owned(), &draft.mitigation),
        ];
        parts.extend(
            (1..).zip(&draft.reasoning).map(|(number, text)| (format!("reasoning {number}"), text)),
        );
        let mut flags: Vec<Flag> = parts
            .iter()
            .flat_map(|(part, text)| self.check(it.move_id, part, text, &plans))
            .collect();
        let listed = draft.citations.join("\n");
        flags.extend(self.check(it.move_id, "citations", &listed, &plans));
        flags
    }

    /// Checks what was said about a move; `log` is the name of the log, like `i1`.
    pub fn check_log(&self, it: &Move, log: &str, entries: &[ConversationEntry]) -> Vec<Flag> {
        let plans = plans(it);
        let check = |entry: &ConversationEntry| {
            let part = format!("{log}, round {}, {}", entry.round, entry.role);
            self.check(it.move_id, &part, &entry.content, &plans)
        };
        entries.iter().flat_map(check).collect()
    }

    fn check(&self, move_id: MoveId, part: &str, text: &str, plans: &[Quantity]) -> Vec<Flag> {
        let mut flags = Vec::new();
        for (number, sentence) in (1..).zip(sentences(text)) {
            let place = || Place { move_id, part: part.to_owned(), sentence: number };
            let mut ids = Vec::new();
            for (_, id) in cited(sentence) {
                match id {
                    Ok(id) if self.findings.iter().any(|it| it.0 == id) => ids.push(id),
                    Ok(id) => flags.push(Flag {
                        place: place(),
                        text: id.to_string(),
                        reason: Reason::UnknownFinding,
                    }),
                    Err(error) => flags.push(Flag {
                        place: place(),
                        text: error.0,
                        reason: Reason::UnknownFinding,
                    }),
                }
            }
            for claim in claims(sentence) {
                if plans.iter().any(|it| it.supports(&claim)) {
                    continue;
                }
                let text = sentence.get(claim.at.clone()).unwrap_or_default().to_owned();
                flags.extend(self.fault(&ids, &claim).map(|reason| Flag {
                    place: place(),
                    text,
                    reason,
                }));
            }
        }
        flags
    }

    /// Why a number is not supported; none when it is.
    fn fault(&self, cited: &[FindingId], claim: &Quantity) -> Option<Reason> {
        let states = |numbers: &[Quantity]| numbers.iter().any(|it| it.supports(claim));
        let stating: Vec<FindingId> = self
            .findings
            .iter()
            .filter(|(_, numbers)| states(numbers))
            .map(|(id, _)| *id)
            .collect();
        if stating.iter().any(|it| cited.contains(it)) {
            return None;
        }
        let documented = states(&self.documents);
        match (cited.is_empty(), stating.is_empty(), documented) {
            (_, true, false) => Some(Reason::Unsupported),
            (true, ..) => None,
            (false, false, _) => Some(Reason::InOtherFindings { findings: stating }),
            (false, true, true) => Some(Reason::OnlyInDocuments),
        }
    }
}

/// The numbers that a move proposes.
fn plans(it: &Move) -> Vec<Quantity> {
    let draft = &it.draft;
    let steps = draft.steps.iter().flat_map(|it| [&it.action, &it.timeframe]);
    let texts = steps.chain([&draft.cost, &draft.kpi]).chain(&draft.falsifiers);
    texts.flat_map(|it| claims(it)).collect()
}
