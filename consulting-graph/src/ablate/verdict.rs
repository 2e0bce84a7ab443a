//! Verdicts about moves, and how they are read from the answers of models.

use std::cmp::Ordering;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::flaw::FlawKind;
use crate::{
    lenient_json,
    score::{NEUTRAL_SCORE, SCORE_RANGE},
};

/// A verdict as a model writes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(super) struct VerdictDraft {
    /// One or two sentences of justification.
    #[serde(default)]
    pub(super) reason: String,
    /// Whether the move contains an error.
    pub(super) flawed: bool,
    /// Kind of the error: wrong_figure, wrong_citation, infeasible_step, hidden_cost or none.
    #[serde(default)]
    pub(super) kind: String,
    /// Overall quality of the move, from 1 to 10.
    #[serde(default = "neutral")]
    #[schemars(range(min = 1, max = 10))]
    pub(super) score: f64,
}

/// A decision maker's judgement of a move.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Whether the move is judged flawed.
    pub flawed: bool,
    /// Kind of the flaw, if the decision maker names one.
    pub kind: Option<FlawKind>,
    /// Overall quality of the move, from 1 to 10.
    pub score: f64,
    /// Whether the verdict was read from an answer. If it could not be read, the other fields have default values.
    pub is_read: bool,
}

fn neutral() -> f64 {
    NEUTRAL_SCORE.into()
}

impl Verdict {
    /// Reads a verdict from an answer. Ignores text around the JSON.
    pub(super) fn read(answer: &str) -> Option<Self> {
        let draft: VerdictDraft = lenient_json::find(answer, |_| true)?;
        let (low, high) = (*SCORE_RANGE.start(), *SCORE_RANGE.end());
        let kind = FlawKind::parse(&draft.kind).filter(|_| draft.flawed);
        let score = draft.score.clamp(low.into(), high.into());
        Some(Self { flawed: draft.flawed, kind, score, is_read: true })
    }

    /// Returns the verdict that replaces an unreadable one: no flaw, and a neutral score.
    pub(super) fn unread() -> Self {
        Self { flawed: false, kind: None, score: neutral(), is_read: false }
    }

    /// Returns the verdict of the majority, with the mean score. The first verdict breaks ties. The kind is the most
    /// frequent one. Unreadable verdicts do not vote.
    pub(super) fn majority(all: &[Self]) -> Self {
        let read: Vec<&Self> = all.iter().filter(|it| it.is_read).collect();
        let Some(first) = read.first() else { return Self::unread() };
        let votes_for_flaw = read.iter().filter(|it| it.flawed).count();
        let flawed = match (2 * votes_for_flaw).cmp(&read.len()) {
            Ordering::Greater => true,
            Ordering::Equal => first.flawed,
            Ordering::Less => false,
        };
        let votes = |kind: FlawKind| read.iter().filter(|it| it.kind == Some(kind)).count();
        // The first of equally frequent kinds wins.
        let most = FlawKind::ALL.into_iter().rev().max_by_key(|it| votes(*it));
        let kind = most.filter(|it| flawed && votes(*it) > 0);
        let score = read.iter().map(|it| it.score).sum::<f64>() / read.len() as f64;
        Self { flawed, kind, score, is_read: true }
    }
}

#[cfg(test)]
mod tests {
    use super::{FlawKind, Verdict};

    fn verdict(flawed: bool, kind: Option<FlawKind>, score: f64) -> Verdict {
        Verdict { flawed, kind, score, is_read: true }
    }

    #[test]
    fn verdicts_are_read_from_json_in_other_text() {
        let answer = r#"Here it is: {"reason": "-", "flawed": true, "kind": "Hidden cost", "score": 14} OK?"#;
        let expected = verdict(true, Some(FlawKind::HiddenCost), 10.0);
        assert_eq!(Verdict::read(answer), Some(expected));
        let sound = r#"{"flawed": false, "kind": "wrong_figure", "score": 7}"#;
        assert_eq!(Verdict::read(sound), Some(verdict(false, None, 7.0)));
        assert_eq!(Verdict::read("It is flawed."), None);
        assert_eq!(Verdict::read(r#"{"score": 7}"#), None);
    }

    #[test]
    fn the_majority_decides_and_unreadable_verdicts_do_not_vote() {
        let [a, b] = [Some(FlawKind::WrongFigure), Some(FlawKind::HiddenCost)];
        let flawed = [verdict(true, b, 2.0), verdict(true, a, 4.0), verdict(true, b, 3.0)];
        assert_eq!(Verdict::majority(&flawed), verdict(true, b, 3.0));
        let mut tie = [Verdict::unread(), verdict(true, a, 2.0), verdict(false, None, 8.0)];
        assert_eq!(Verdict::majority(&tie), verdict(true, a, 5.0));
        tie.reverse();
        assert_eq!(Verdict::majority(&tie), verdict(false, None, 5.0));
        assert_eq!(Verdict::majority(&[Verdict::unread()]), Verdict::unread());
    }
}
