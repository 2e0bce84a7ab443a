//! Validates the findings that a model wrote.

use std::collections::BTreeSet;

use super::{
    draft::{FindingDraft, FindingsDraft, MAX_PER_DOCUMENT},
    stated::{Disagreement, StatedNumbers},
};
use crate::{data::Period, markdown};

/// Number of findings that an inference agent should produce from its document.
const EXPECTED_COUNT: std::ops::RangeInclusive<usize> = 8..=MAX_PER_DOCUMENT;

/// A defect of a findings draft. Findings and tensions are identified by their position in their list, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FindingViolation {
    #[error("there are {0} findings; provide 8 to 14")]
    WrongCount(usize),
    #[error("finding {0} has no claim")]
    NoClaim(usize),
    #[error(
        "finding {0} has no evidence; quote cells or a sentence of the document and name the section"
    )]
    NoEvidence(usize),
    #[error("finding {finding} quotes {quote:?}, which is not in the document; quote verbatim")]
    QuoteNotFound { finding: usize, quote: String },
    #[error("finding {finding} contains a recommendation ({phrase:?}); state the facts only")]
    Recommends { finding: usize, phrase: String },
    #[error("finding {0} has strength {1}; use 1, 2 or 3")]
    InvalidStrength(usize, u8),
    #[error("finding {finding} refers to {period}, which is not in the document; use its periods")]
    UnknownPeriod { finding: usize, period: Period },
    #[error(
        "finding {finding} states {number} for {period}, but the document states it for another period"
    )]
    WrongPeriod { finding: usize, number: String, period: Period },
    #[error("finding {finding} states {number}, but the document uses another unit")]
    WrongUnit { finding: usize, number: String },
    #[error("finding {finding} states {text:?}; name a period, such as FY2025, after the number")]
    AmountAsPeriod { finding: usize, text: String },
    #[error("tension {0} refers to a finding that is not in the list")]
    UnknownFindingInTension(usize),
}

/// Returns all defects of a draft. `document` is the document that the findings were derived from.
pub(crate) fn violations(draft: &FindingsDraft, document: &str) -> Vec<FindingViolation> {
    let mut violations = Vec::new();
    if !(min_count(document)..=*EXPECTED_COUNT.end()).contains(&draft.findings.len()) {
        violations.push(FindingViolation::WrongCount(draft.findings.len()));
    }
    let index = DocumentIndex::new(document);
    for (number, finding) in (1..).zip(&draft.findings) {
        check_finding(number, finding, &index, &mut violations);
    }
    for (number, tension) in (1..).zip(&draft.tensions) {
        let known = |it: &u8| (1..=draft.findings.len()).contains(&usize::from(*it));
        if !tension.between.iter().all(known) {
            violations.push(FindingViolation::UnknownFindingInTension(number));
        }
    }
    violations
}

/// Returns the minimum number of findings that an inference agent should produce from a document. A short document does
/// not support the usual number.
pub(crate) fn min_count(document: &str) -> usize {
    let lines_with_numbers =
        document.lines().filter(|it| it.contains(|it: char| it.is_ascii_digit())).count();
    (*EXPECTED_COUNT.start()).min(lines_with_numbers).max(1)
}

fn check_finding(
    number: usize,
    it: &FindingDraft,
    index: &DocumentIndex,
    violations: &mut Vec<FindingViolation>,
) {
    if it.claim.trim().is_empty() {
        violations.push(FindingViolation::NoClaim(number));
    }
    if it.evidence.is_empty() {
        violations.push(FindingViolation::NoEvidence(number));
    }
    for evidence in it.evidence.iter().filter(|it| !index.contains_quote(&it.section, &it.quote)) {
        violations.push(FindingViolation::QuoteNotFound {
            finding: number,
            quote: evidence.quote.clone(),
        });
    }
    if let Some(phrase) = find_recommendation(&it.claim) {
        violations.push(FindingViolation::Recommends { finding: number, phrase });
    }
    violations.extend(index.numbers.disagreements(&it.claim).into_iter().map(|it| match it {
        Disagreement::UnknownPeriod(period) => {
            FindingViolation::UnknownPeriod { finding: number, period }
        }
        Disagreement::WrongPeriod { number: stated, period } => {
            FindingViolation::WrongPeriod { finding: number, number: stated, period }
        }
        Disagreement::WrongUnit { number: stated } => {
            FindingViolation::WrongUnit { finding: number, number: stated }
        }
        Disagreement::AmountAsPeriod { text } => {
            FindingViolation::AmountAsPeriod { finding: number, text }
        }
    }));
    if !(1..=3).contains(&it.strength) {
        violations.push(FindingViolation::InvalidStrength(number, it.strength));
    }
}

/// The words and numbers of a document, by section, for looking up quotations and periods.
struct DocumentIndex {
    numbers: StatedNumbers,
    words: String,
    sections: Vec<(String, BTreeSet<String>)>,
}

impl DocumentIndex {
    fn new(document: &str) -> Self {
        let sections = markdown::sections(document, |_| false);
        let sections = sections
            .iter()
            .map(|it| (words(it.title).join(" "), words(&it.body).into_iter().collect()));
        Self {
            numbers: StatedNumbers::new(document),
            words: format!(" {} ", words(document).join(" ")),
            sections: sections.collect(),
        }
    }

    /// Returns whether the document contains the quotation verbatim, or the named section contains every word of the
    /// quotation.
    fn contains_quote(&self, section: &str, quote: &str) -> bool {
        let quoted = words(quote);
        if quoted.is_empty() {
            return false;
        }
        let section = words(section).join(" ");
        self.words.contains(&format!(" {} ", quoted.join(" ")))
            || self
                .sections
                .iter()
                .filter(|(title, _)| *title == section)
                .any(|(_, known)| quoted.iter().all(|it| known.contains(it)))
    }
}

/// Splits a text into lower-case words and numbers. Numbers keep their currency and percent signs.
fn words(text: &str) -> Vec<String> {
    let part_of_word = |it: char| it.is_alphanumeric() || matches!(it, '$' | '%' | '.' | ',' | '-');
    text.split(|it: char| !part_of_word(it))
        .map(|it| it.trim_matches(['.', ',', '-']).to_lowercase())
        .filter(|it| !it.is_empty())
        .collect()
}

/// Returns the words that make a text a recommendation, if any: an imperative at the start of a sentence, or a phrase
/// such as `should`.
pub(crate) fn find_recommendation(text: &str) -> Option<String> {
    const IMPERATIVES: &[&str] = &[
        "accelerate", "acquire", "adopt", "avoid", "boost", "build", "buy", "consider", "cut",
        "develop", "divest", "diversify", "enter", "exit", "expand", "focus", "hire", "implement",
        "improve", "increase", "introduce", "invest", "launch", "leverage", "negotiate",
        "optimise", "optimize", "partner", "pause", "prioritise", "prioritize", "pursue", "raise",
        "reduce", "refocus", "renegotiate", "replace", "restructure", "return", "sell", "shift",
        "spend", "start", "stop", "strengthen", "target",
    ];
    const PHRASES: &[&str] = &[
        "should", "ought to", "must", "needs to", "need to", "has to", "recommend", "recommends",
        "we advise", "would do well", "it is time to", "had better",
    ];
    let sentences = text.split(['.', '!', '?', ';', '\n']);
    for sentence in sentences {
        let words: Vec<&str> = sentence
            .split(|it: char| !it.is_alphanumeric() && it != '\'')
            .filter(|it| !it.is_empty())
            .collect();
        let first = words.first().copied().unwrap_or_default();
        // `Return on equity` and `Target prices` are noun phrases, not imperatives.
        let subject = matches!(
            words.get(1).copied(),
            Some("on" | "of" | "in" | "prices" | "price" | "is" | "was" | "has")
        );
        if IMPERATIVES.contains(&first.to_lowercase().as_str()) && !subject {
            return Some(first.to_owned());
        }
        let lower = format!(" {} ", words.join(" ").to_lowercase());
        if let Some(phrase) = PHRASES.iter().find(|it| lower.contains(&format!(" {it} "))) {
            return Some((*phrase).to_owned());
        }
    }
    None
}
