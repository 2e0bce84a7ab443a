//! What is wrong with an analyst's moves.

use std::collections::BTreeSet;

use super::{MoveDraft, Risk};
use crate::finding::{FindingId, Findings, Inference, cited};

/// So many findings a move must cite.
const CITATIONS: usize = 3;
/// So many paragraphs of reasoning it must have.
const PARAGRAPHS: usize = 3;
/// From this similarity on, two moves are the same move.
const DUPLICATE: f64 = 0.6;

/// Something wrong with a move; the number is its place among the analyst's moves, from 1.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MoveProblem {
    /// It rests on too little.
    #[error("move {0} cites {1} findings that exist; cite at least {CITATIONS}")]
    TooFewCitations(usize, usize),
    /// It cites what is not there.
    #[error("move {0} cites {1}, which does not exist; cite only findings from F1 and F2 as given")]
    UnknownFinding(usize, String),
    /// It is another one again.
    #[error("move {0} says nearly the same as move {1}; propose something else")]
    NearDuplicate(usize, usize),
    /// It looks at one side only.
    #[error("move {0} cites no finding of {1}; use both F1 and F2")]
    OneSided(usize, Inference),
    /// It is not argued.
    #[error("move {0} has {1} paragraphs of reasoning; write at least {PARAGRAPHS}")]
    ThinReasoning(usize, usize),
    /// A part is empty.
    #[error("move {0} has no {1}")]
    Missing(usize, &'static str),
    /// A risk level has no move.
    #[error("no move has {0:?} risk; give one of each level")]
    NoRisk(Risk),
}

impl MoveProblem {
    /// Whether the analyst is asked again because of it; anything else is only reported.
    pub fn asks_again(&self) -> bool {
        matches!(
            self,
            Self::TooFewCitations(..) | Self::UnknownFinding(..) | Self::NearDuplicate(..)
        )
    }
}

/// Everything that is wrong with the moves of one analyst.
pub fn problems(moves: &[MoveDraft], findings: &[Findings]) -> Vec<MoveProblem> {
    let mut problems = Vec::new();
    for (idx, draft) in moves.iter().enumerate() {
        of_citations(idx + 1, draft, findings, &mut problems);
        of_content(idx + 1, draft, &mut problems);
        let twin = moves[..idx].iter().position(|it| similarity(it, draft) >= DUPLICATE);
        problems.extend(twin.map(|it| MoveProblem::NearDuplicate(idx + 1, it + 1)));
    }
    if moves.len() >= 3 {
        let absent = [Risk::Low, Risk::Medium, Risk::High]
            .into_iter()
            .filter(|risk| !moves.iter().any(|it| it.risk_level == *risk));
        problems.extend(absent.map(MoveProblem::NoRisk));
    }
    problems
}

fn of_citations(
    number: usize,
    draft: &MoveDraft,
    findings: &[Findings],
    problems: &mut Vec<MoveProblem>,
) {
    let exists = |id: &FindingId| findings.iter().any(|it| it.get(*id).is_some());
    let (known, unknown): (Vec<FindingId>, Vec<FindingId>) =
        draft.cited().into_iter().partition(exists);
    let mut names: BTreeSet<String> = unknown.iter().map(FindingId::to_string).collect();
    // What is listed and is no id at all, as F3-01 or `revenue`.
    names.extend(
        draft
            .citations
            .iter()
            .filter(|it| cited(it).iter().all(|(_, id)| id.is_err()))
            .map(|it| it.trim().to_owned()),
    );
    problems.extend(names.into_iter().map(|it| MoveProblem::UnknownFinding(number, it)));
    if known.len() < CITATIONS {
        problems.push(MoveProblem::TooFewCitations(number, known.len()));
    }
    // Nobody can cite what there is none of.
    let sides = findings.iter().filter(|it| !it.findings.is_empty()).map(|it| it.inference);
    for side in sides {
        if !known.iter().any(|it| it.inference == side) {
            problems.push(MoveProblem::OneSided(number, side));
        }
    }
}

fn of_content(number: usize, draft: &MoveDraft, problems: &mut Vec<MoveProblem>) {
    let paragraphs = draft.reasoning.iter().filter(|it| !it.trim().is_empty()).count();
    if paragraphs < PARAGRAPHS {
        problems.push(MoveProblem::ThinReasoning(number, paragraphs));
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
    problems
        .extend(parts.into_iter().filter(|it| it.1).map(|it| MoveProblem::Missing(number, it.0)));
}

/// How alike two moves are, from 0 to 1: the words that titles and theses share, of all their words. Words of up to
/// three letters do not count.
pub fn similarity(a: &MoveDraft, b: &MoveDraft) -> f64 {
    let words = |it: &MoveDraft| -> BTreeSet<String> {
        let text = format!("{} {}", it.title, it.thesis).to_lowercase();
        text.split(|it: char| !it.is_alphanumeric())
            .filter(|it| it.chars().count() > 3)
            .map(str::to_owned)
            .collect()
    };
    let (a, b) = (words(a), words(b));
    let all = a.union(&b).count();
    if all == 0 { 0.0 } else { a.intersection(&b).count() as f64 / all as f64 }
}
