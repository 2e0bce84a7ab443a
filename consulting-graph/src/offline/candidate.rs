//! Findings that the offline board can choose from.

use crate::finding::{Direction, Evidence, FindingDraft, Kind};

/// A finding that the company data supports.
pub(super) struct Candidate {
    /// Name by which the texts about tensions refer to the finding.
    pub(super) label: &'static str,
    pub(super) draft: FindingDraft,
    /// Whether the finding is a filler: it says nothing about the company and is used only if there are too few
    /// findings.
    pub(super) is_filler: bool,
}

impl Candidate {
    pub(super) fn new(kind: Kind, claim: String, section: &str, quote: impl Into<String>) -> Self {
        let evidence = vec![Evidence { section: section.to_owned(), quote: quote.into() }];
        let direction = Direction::Mixed;
        let draft = FindingDraft { claim, evidence, direction, strength: 1, kind };
        Self { label: "", draft, is_filler: false }
    }

    pub(super) fn label(mut self, label: &'static str) -> Self {
        self.label = label;
        self
    }

    pub(super) fn filler(mut self) -> Self {
        self.is_filler = true;
        self
    }

    pub(super) fn strength(mut self, strength: u8) -> Self {
        self.draft.strength = strength;
        self
    }

    pub(super) fn direction(mut self, direction: Direction) -> Self {
        self.draft.direction = direction;
        self
    }
}

/// Returns [`Direction::Positive`] if the finding is good for the company, otherwise [`Direction::Negative`].
pub(super) fn good_if(is_good: bool) -> Direction {
    if is_good { Direction::Positive } else { Direction::Negative }
}

/// Returns [`Direction::Negative`] if the finding is bad for the company, otherwise [`Direction::Mixed`].
pub(super) fn bad_if(is_bad: bool) -> Direction {
    if is_bad { Direction::Negative } else { Direction::Mixed }
}
