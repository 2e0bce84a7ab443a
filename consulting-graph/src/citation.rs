//! Checks the citations and numbers in texts written by models.
//!
//! Every number is checked against the company data as computed by this program. A number that is missing from the data
//! is unsupported, even if a model stated it in a document or in a finding.
//!
//! In a move and its debate, a number is supported if the data contains it and the sentence cites a finding that states
//! it. If the sentence cites no finding, it is enough that the data contains the number. Numbers that the move itself
//! proposes (steps, cost, KPI, falsifiers) are plans rather than claims and are never flagged. Flags appear in the
//! report and do not change scores.

use serde::{Deserialize, Serialize};

use crate::{
    finding::{Finding, FindingId, Findings, find_citations},
    markdown,
    moves::{Move, MoveId},
    quantity::{Quantity, claims},
    sentence::sentences,
    transcript::ConversationEntry,
};

/// Checks texts against the findings and the data.
#[derive(Debug, Clone)]
pub(crate) struct CitationChecker {
    findings: Vec<FindingNumbers>,
    data: Vec<Quantity>,
}

#[derive(Debug, Clone)]
struct FindingNumbers {
    id: FindingId,
    /// Numbers that the finding states and the data contains.
    backed: Vec<Quantity>,
    /// Numbers that the finding states but the data does not contain.
    claimed: Vec<Quantity>,
}

/// An unsupported citation or number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flag {
    /// The sentence that contains the citation or number.
    #[serde(rename = "place")]
    pub location: TextLocation,
    /// The citation or number as written.
    pub text: String,
    /// Why the citation or number is flagged.
    pub reason: Reason,
}

/// Position of a sentence in a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextLocation {
    /// The document: a move including its debate (`m4`), a finding (`F1-07`), a set of findings (`F1`) or a file
    /// (`financial.md`).
    pub document: String,
    /// The part of the document, such as `thesis`, `i1, round 3, critic` or a section heading.
    pub part: String,
    /// Number of the sentence within the part, counted from 1.
    pub sentence: usize,
}

/// Why a citation or number is flagged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Reason {
    /// The cited finding does not exist.
    UnknownFinding,
    /// The cited findings do not state the number, but other findings do.
    InOtherFindings { findings: Vec<FindingId> },
    /// The cited findings do not state the number, but the data contains it.
    OnlyInData,
    /// Findings state the number, but the data does not contain it.
    OnlyInFindings { findings: Vec<FindingId> },
    /// A source document or a finding contains a number that the data does not contain.
    NotInData,
    /// Neither the findings nor the data contain the number.
    Unsupported,
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let listed = |findings: &[FindingId]| {
            findings.iter().map(FindingId::to_string).collect::<Vec<_>>().join(", ")
        };
        match self {
            Self::UnknownFinding => f.write_str("this finding does not exist"),
            Self::InOtherFindings { findings } => {
                write!(f, "not in the cited finding, but in {}", listed(findings))
            }
            Self::OnlyInData => f.write_str("not in the cited finding, but in the data"),
            Self::OnlyInFindings { findings } => {
                write!(f, "stated only by {}; not in the data", listed(findings))
            }
            Self::NotInData => f.write_str("not in the data"),
            Self::Unsupported => f.write_str("in neither the findings nor the data"),
        }
    }
}

impl CitationChecker {
    /// Extracts the numbers from the findings and from `data`, the source documents as computed by this program.
    pub(crate) fn new(findings: &[Findings], data: &[&str]) -> Self {
        let data: Vec<Quantity> = data.iter().flat_map(|it| claims(it)).collect();
        let stated = |it: &Finding| {
            let quotes = it.draft.evidence.iter().flat_map(|it| claims(&it.quote));
            let all = claims(&it.draft.claim).into_iter().chain(quotes);
            let (backed, claimed) = all.partition(|it| any_supports(&data, it));
            FindingNumbers { id: it.id, backed, claimed }
        };
        let findings = findings.iter().flat_map(|it| &it.findings).map(stated).collect();
        Self { findings, data }
    }

    /// Checks a document that a model wrote from the data; `name` is its file name.
    pub(crate) fn check_document(&self, name: &str, text: &str) -> Vec<Flag> {
        let mut flags = Vec::new();
        let (mut part, mut number) = ("opening", 0);
        for line in text.lines() {
            if let Some((_, title)) = markdown::parse_heading(line) {
                (part, number) = (title, 0);
            }
            for sentence in sentences(line) {
                number += 1;
                let location = TextLocation {
                    document: name.to_owned(),
                    part: part.to_owned(),
                    sentence: number,
                };
                flags.extend(self.missing_from_data(sentence, &location));
            }
        }
        flags
    }

    /// Checks the claims, quotations and tensions of findings.
    pub(crate) fn check_findings(&self, of: &Findings) -> Vec<Flag> {
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
                let location =
                    TextLocation { document: document.clone(), part: part.clone(), sentence };
                flags.extend(self.missing_from_data(text, &location));
            }
        }
        flags
    }

    /// Flags every number that occurs in the sentence but not in the data.
    fn missing_from_data(&self, sentence: &str, location: &TextLocation) -> Vec<Flag> {
        let missing = claims(sentence).into_iter().filter(|it| !any_supports(&self.data, it));
        let flag = |it: Quantity| Flag {
            location: location.clone(),
            text: sentence.get(it.at).unwrap_or_default().to_owned(),
            reason: Reason::NotInData,
        };
        missing.map(flag).collect()
    }

    /// Checks the claims of a move.
    pub(crate) fn check_move(&self, it: &Move) -> Vec<Flag> {
        let draft = &it.draft;
        let plans = planned_quantities(it);
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

    /// Checks the entries of one debate log about a move; `log` is the name of the log, such as `i1`.
    pub(crate) fn check_log(
        &self,
        it: &Move,
        log: &str,
        entries: &[ConversationEntry],
    ) -> Vec<Flag> {
        let plans = planned_quantities(it);
        let check = |entry: &ConversationEntry| {
            let part = format!("{log}, round {}, {}", entry.round, entry.role);
            self.check(it.move_id, &part, &entry.content, &plans)
        };
        entries.iter().flat_map(check).collect()
    }

    fn check(&self, move_id: MoveId, part: &str, text: &str, plans: &[Quantity]) -> Vec<Flag> {
        let mut flags = Vec::new();
        for (number, sentence) in (1..).zip(sentences(text)) {
            let location = || TextLocation {
                document: move_id.to_string(),
                part: part.to_owned(),
                sentence: number,
            };
            let mut ids = Vec::new();
            for (_, id) in find_citations(sentence) {
                match id {
                    Ok(id) if self.findings.iter().any(|it| it.id == id) => ids.push(id),
                    Ok(id) => flags.push(Flag {
                        location: location(),
                        text: id.to_string(),
                        reason: Reason::UnknownFinding,
                    }),
                    Err(error) => flags.push(Flag {
                        location: location(),
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
                flags.extend(self.reason_to_flag(&ids, &claim).map(|reason| Flag {
                    location: location(),
                    text,
                    reason,
                }));
            }
        }
        flags
    }

    /// Returns why a number is unsupported; `None` if it is supported.
    fn reason_to_flag(&self, cited: &[FindingId], claim: &Quantity) -> Option<Reason> {
        let among = |numbers: fn(&FindingNumbers) -> &[Quantity]| -> Vec<FindingId> {
            let stating = self.findings.iter().filter(|it| any_supports(numbers(it), claim));
            stating.map(|it| it.id).collect()
        };
        let backed = among(|it| &it.backed);
        if backed.iter().any(|it| cited.contains(it)) {
            return None;
        }
        if any_supports(&self.data, claim) {
            return match (cited.is_empty(), backed.is_empty()) {
                (true, _) => None,
                (false, true) => Some(Reason::OnlyInData),
                (false, false) => Some(Reason::InOtherFindings { findings: backed }),
            };
        }
        let claimed = among(|it| &it.claimed);
        Some(match (backed.is_empty(), claimed.is_empty()) {
            // The claim may round a number that a finding had already rounded. Such a claim may not match the data, but
            // it is accepted, because the number in the finding matches both the claim and the data.
            (false, _) if cited.is_empty() => return None,
            (false, _) => Reason::InOtherFindings { findings: backed },
            (true, false) => Reason::OnlyInFindings { findings: claimed },
            (true, true) => Reason::Unsupported,
        })
    }
}

fn any_supports(numbers: &[Quantity], claim: &Quantity) -> bool {
    numbers.iter().any(|it| it.supports(claim))
}

/// Returns the numbers that a move proposes.
fn planned_quantities(it: &Move) -> Vec<Quantity> {
    let draft = &it.draft;
    let steps = draft.steps.iter().flat_map(|it| [&it.action, &it.timeframe]);
    let texts = steps.chain([&draft.cost, &draft.kpi]).chain(&draft.falsifiers);
    texts.flat_map(|it| claims(it)).collect()
}
