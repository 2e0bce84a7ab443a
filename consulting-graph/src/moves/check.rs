//! Validates the moves that an analyst proposed.

use std::collections::BTreeSet;

use super::draft::{MoveDraft, Risk};
use crate::{
    finding::{FindingId, Findings, Inference, find_citations},
    watch,
};

/// Minimum number of findings that a move must cite.
const MIN_CITATIONS: usize = 3;
/// Minimum number of paragraphs in the reasoning for a move.
const MIN_PARAGRAPHS: usize = 3;
/// Moves with at least this similarity count as duplicates.
const DUPLICATE_SIMILARITY: f64 = 0.6;

/// A defect of an analyst's moves. In all variants that concern a particular move, the first field is the position of
/// the move in the analyst's answer, counted from 1.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MoveViolation {
    #[error("move {0} cites {1} existing findings; cite at least {MIN_CITATIONS}")]
    TooFewCitations(usize, usize),
    #[error("move {0} cites {1}, which does not exist; cite only the given findings of F1 and F2")]
    UnknownFinding(usize, String),
    #[error("move {0} is nearly identical to move {1}; propose a different one")]
    NearDuplicate(usize, usize),
    /// A move cites findings from only one of the two sets F1 and F2. The second field is the set that the move does
    /// not cite.
    #[error("move {0} cites no finding of {1}; cite both F1 and F2")]
    OneSided(usize, Inference),
    #[error("move {0} has {1} paragraphs of reasoning; write at least {MIN_PARAGRAPHS}")]
    TooLittleReasoning(usize, usize),
    #[error("move {0} has no {1}")]
    MissingPart(usize, &'static str),
    #[error("no move has {0:?} risk; propose one move per risk level")]
    MissingRiskLevel(Risk),
}

impl MoveViolation {
    /// Returns whether the analyst is called again because of this defect. Other defects are only reported.
    pub fn requires_retry(&self) -> bool {
        matches!(
            self,
            Self::TooFewCitations(..) | Self::UnknownFinding(..) | Self::NearDuplicate(..)
        )
    }
}

/// Returns all defects of an analyst's moves.
pub fn violations(moves: &[MoveDraft], findings: &[Findings]) -> Vec<MoveViolation> {
    let mut violations = Vec::new();
    for (idx, draft) in moves.iter().enumerate() {
        check_citations(idx + 1, draft, findings, &mut violations);
        check_content(idx + 1, draft, &mut violations);
        let duplicate =
            moves[..idx].iter().position(|it| similarity(it, draft) >= DUPLICATE_SIMILARITY);
        violations.extend(duplicate.map(|it| MoveViolation::NearDuplicate(idx + 1, it + 1)));
    }
    if moves.len() >= 3 {
        let absent = [Risk::Low, Risk::Medium, Risk::High]
            .into_iter()
            .filter(|risk| !moves.iter().any(|it| it.risk_level == *risk));
        violations.extend(absent.map(MoveViolation::MissingRiskLevel));
    }
    violations
}

fn check_citations(
    number: usize,
    draft: &MoveDraft,
    findings: &[Findings],
    violations: &mut Vec<MoveViolation>,
) {
    let exists = |id: &FindingId| findings.iter().any(|it| it.get(*id).is_some());
    let (known, unknown): (Vec<FindingId>, Vec<FindingId>) =
        draft.cited_findings().into_iter().partition(exists);
    let mut names: BTreeSet<String> = unknown.iter().map(FindingId::to_string).collect();
    // Also add the listed citations that contain no valid id, such as `F3-01` or `revenue`.
    names.extend(
        draft
            .citations
            .iter()
            .filter(|it| find_citations(it).iter().all(|(_, id)| id.is_err()))
            .map(|it| it.trim().to_owned()),
    );
    violations.extend(names.into_iter().map(|it| MoveViolation::UnknownFinding(number, it)));
    if known.len() < MIN_CITATIONS {
        violations.push(MoveViolation::TooFewCitations(number, known.len()));
    }
    // Skip a set without findings, because it cannot be cited.
    let sides = findings.iter().filter(|it| !it.findings.is_empty()).map(|it| it.inference);
    for side in sides {
        if !known.iter().any(|it| it.inference == side) {
            violations.push(MoveViolation::OneSided(number, side));
        }
    }
}

fn check_content(number: usize, draft: &MoveDraft, violations: &mut Vec<MoveViolation>) {
    let paragraphs = draft.reasoning.iter().filter(|it| !it.trim().is_empty()).count();
    if paragraphs < MIN_PARAGRAPHS {
        violations.push(MoveViolation::TooLittleReasoning(number, paragraphs));
    }
    let parts = [
        ("title", draft.title.trim().is_empty()),
        ("thesis", draft.thesis.trim().is_empty()),
        ("why now", draft.why_now.trim().is_empty()),
        ("steps", draft.steps.is_empty()),
        ("cost", draft.cost.trim().is_empty()),
        ("downside", draft.downside.trim().is_empty()),
        ("mitigation", draft.mitigation.trim().is_empty()),
        ("falsifiers", draft.falsifiers.is_empty()),
        ("KPI", draft.kpi.trim().is_empty()),
    ];
    violations.extend(
        parts.into_iter().filter(|it| it.1).map(|it| MoveViolation::MissingPart(number, it.0)),
    );
}

/// Returns the similarity of two moves, from 0 to 1: the Jaccard index of the words in titles and theses, ignoring
/// words of up to three letters.
pub fn similarity(a: &MoveDraft, b: &MoveDraft) -> f64 {
    let words = |it: &MoveDraft| watch::words(&format!("{} {}", it.title, it.thesis));
    let (a, b) = (words(a), words(b));
    let all = a.union(&b).count();
    if all == 0 { 0.0 } else { a.intersection(&b).count() as f64 / all as f64 }
}
