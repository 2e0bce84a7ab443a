//! Checking by a program what the models cite: every `[F1-07]` and every number.
//!
//! What everything is measured by are the data, as they were computed here: neither a document that a model told from
//! them nor a finding that a model drew from that document supports a number that the data do not have.
//!
//! In a move and in its debate a number is good when a finding that its sentence cites states it and the data have it,
//! or, in a sentence without citations, when the data do. Numbers that the move itself proposes (its steps, cost,
//! measures and falsifiers) are plans and not claims; whoever quotes them is right. Flags are shown and lower no score.

use serde::{Deserialize, Serialize};

use crate::{
    finding::{Finding, FindingId, Findings, cited},
    markdown,
    moves::{Move, MoveId},
    quantity::{Quantity, claims},
    sentence::sentences,
    transcript::ConversationEntry,
};

/// What texts are checked against.
#[derive(Debug, Clone)]
pub struct Evidence {
    findings: Vec<Stated>,
    data: Vec<Quantity>,
}

/// The numbers of a finding.
#[derive(Debug, Clone)]
struct Stated {
    id: FindingId,
    /// Those that the data have.
    backed: Vec<Quantity>,
    /// Those that only the finding has.
    claimed: Vec<Quantity>,
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
    /// In which document: the move `m4` with its debate, the finding `F1-07`, or `financial.md`.
    pub document: String,
    /// In which part of it: `thesis`, `i1, round 3, critic`, or a section's heading.
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
    /// The cited findings do not state the number; the data have it.
    OnlyInData,
    /// Findings state the number, but the data do not have it: a model's word stands for it and nothing else.
    OnlyInFindings {
        /// These do.
        findings: Vec<FindingId>,
    },
    /// A document that is told from the data, or a finding, has a number that the data do not have.
    NotInData,
    /// Nothing states the number.
    Unsupported,
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let listed = |findings: &[FindingId]| {
            findings.iter().map(FindingId::to_string).collect::<Vec<_>>().join(", ")
        };
        match self {
            Self::UnknownFinding => f.write_str("there is no such finding"),
            Self::InOtherFindings { findings } => {
                write!(f, "not in the cited finding, but in {}", listed(findings))
            }
            Self::OnlyInData => f.write_str("not in the cited finding, but in the data"),
            Self::OnlyInFindings { findings } => {
                write!(f, "only {} says so; it is not in the data", listed(findings))
            }
            Self::NotInData => f.write_str("not in the data"),
            Self::Unsupported => f.write_str("in no finding and not in the data"),
        }
    }
}

impl Evidence {
    /// Reads the numbers of findings, and of the data behind them as they were computed.
    pub fn new(findings: &[Findings], data: &[&str]) -> Self {
        let data: Vec<Quantity> = data.iter().flat_map(|it| claims(it)).collect();
        let stated = |it: &Finding| {
            let quotes = it.draft.evidence.iter().flat_map(|it| claims(&it.quote));
            let all = claims(&it.draft.claim).into_iter().chain(quotes);
            let (backed, claimed) = all.partition(|it| states(&data, it));
            Stated { id: it.id, backed, claimed }
        };
        let findings = findings.iter().flat_map(|it| &it.findings).map(stated).collect();
        Self { findings, data }
    }

    /// Checks a document that was told from the data, section by section; `name` is its file's.
    pub fn check_document(&self, name: &str, text: &str) -> Vec<Flag> {
        let mut flags = Vec::new();
        let (mut part, mut number) = ("opening", 0);
        for line in text.lines() {
            if let Some((_, title)) = markdown::heading(line) {
                (part, number) = (title, 0);
            }
            for sentence in sentences(line) {
                number += 1;
                let place =
                    Place { document: name.to_owned(), part: part.to_owned(), sentence: number };
                flags.extend(self.not_in_data(sentence, &place));
            }
        }
        flags
    }

    /// Checks what findings claim and quote, and the tensions between them.
    pub fn check_findings(&self, of: &Findings) -> Vec<Flag> {
        let mut parts = Vec::new();
        for it in &of.findings {
            parts.push((it.id.to_string(), "claim".to_owned(), &it.draft.claim));
            let quotes = (1..).zip(&it.draft.evidence);
            parts.extend(
                quotes.map(|(n, quoted)| (it.id.to_string(), format!("quote {n}"), &quoted.quote)),
            );
        }
        let tensions = (1..).zip(&of.tensions);
        let of_all = of.inference.to_string();
        parts.extend(tensions.map(|(n, it)| (of_all.clone(), format!("tension {n}"), &it.text)));
        let mut flags = Vec::new();
        for (document, part, text) in parts {
            for (sentence, text) in (1..).zip(sentences(text)) {
                let place = Place { document: document.clone(), part: part.clone(), sentence };
                flags.extend(self.not_in_data(text, &place));
            }
        }
        flags
    }

    /// The numbers of a sentence that the data do not have.
    fn not_in_data(&self, sentence: &str, place: &Place) -> Vec<Flag> {
        let missing = claims(sentence).into_iter().filter(|it| !states(&self.data, it));
        let flag = |it: Quantity| Flag {
            place: place.clone(),
            text: sentence.get(it.at).unwrap_or_default().to_owned(),
            reason: Reason::NotInData,
        };
        missing.map(flag).collect()
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
            let place =
                || Place { document: move_id.to_string(), part: part.to_owned(), sentence: number };
            let mut ids = Vec::new();
            for (_, id) in cited(sentence) {
                match id {
                    Ok(id) if self.findings.iter().any(|it| it.id == id) => ids.push(id),
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
        let among = |numbers: fn(&Stated) -> &[Quantity]| -> Vec<FindingId> {
            let stating = self.findings.iter().filter(|it| states(numbers(it), claim));
            stating.map(|it| it.id).collect()
        };
        let backed = among(|it| &it.backed);
        if backed.iter().any(|it| cited.contains(it)) {
            return None;
        }
        if states(&self.data, claim) {
            return match (cited.is_empty(), backed.is_empty()) {
                (true, _) => None,
                (false, true) => Some(Reason::OnlyInData),
                (false, false) => Some(Reason::InOtherFindings { findings: backed }),
            };
        }
        let claimed = among(|it| &it.claimed);
        Some(match (backed.is_empty(), claimed.is_empty()) {
            // What is rounded twice may be too far from the data, and is still what a good finding says.
            (false, _) if cited.is_empty() => return None,
            (false, _) => Reason::InOtherFindings { findings: backed },
            (true, false) => Reason::OnlyInFindings { findings: claimed },
            (true, true) => Reason::Unsupported,
        })
    }
}

fn states(numbers: &[Quantity], claim: &Quantity) -> bool {
    numbers.iter().any(|it| it.supports(claim))
}

/// The numbers that a move proposes.
fn plans(it: &Move) -> Vec<Quantity> {
    let draft = &it.draft;
    let steps = draft.steps.iter().flat_map(|it| [&it.action, &it.timeframe]);
    let texts = steps.chain([&draft.cost, &draft.kpi]).chain(&draft.falsifiers);
    texts.flat_map(|it| claims(it)).collect()
}
