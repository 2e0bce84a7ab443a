//! What is wrong with findings.

use std::collections::BTreeSet;

use super::{FindingDraft, FindingsDraft};
use crate::markdown;

/// How many findings an inference should have.
pub(super) const EXPECTED: std::ops::RangeInclusive<usize> = 8..=14;

/// Something wrong with a draft of findings; the number is the finding's place in the list, from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FindingProblem {
    /// There are too few or too many.
    #[error("there are {0} findings; give 8 to 14")]
    Count(usize),
    /// A finding claims nothing.
    #[error("finding {0} has no claim")]
    NoClaim(usize),
    /// A finding shows nothing for its claim.
    #[error(
        "finding {0} quotes no evidence; quote cells or a sentence of the document, with its section"
    )]
    NoEvidence(usize),
    /// A quotation is not in the document.
    #[error(
        "finding {finding} quotes {quote:?}, which is not in the document; quote it as it stands there"
    )]
    NotQuoted {
        /// The finding.
        finding: usize,
        /// What it quotes.
        quote: String,
    },
    /// A finding gives advice.
    #[error(
        "finding {finding} recommends something ({phrase:?}); say what is the case and leave the advice out"
    )]
    Recommends {
        /// The finding.
        finding: usize,
        /// The words that do it.
        phrase: String,
    },
    /// The strength is out of range.
    #[error("finding {0} has strength {1}; it is 1, 2 or 3")]
    Strength(usize, u8),
    /// A tension names findings that are not there.
    #[error("tension {0} names a finding that is not in the list")]
    UnknownInTension(usize),
}

/// Everything that is wrong with a draft of findings from `document`.
pub fn problems(draft: &FindingsDraft, document: &str) -> Vec<FindingProblem> {
    let mut problems = Vec::new();
    if !EXPECTED.contains(&draft.findings.len()) {
        problems.push(FindingProblem::Count(draft.findings.len()));
    }
    let source = Source::of(document);
    for (number, finding) in (1..).zip(&draft.findings) {
        of_finding(number, finding, &source, &mut problems);
    }
    for (number, tension) in (1..).zip(&draft.tensions) {
        let known = |it: &u8| (1..=draft.findings.len()).contains(&usize::from(*it));
        if !tension.between.iter().all(known) {
            problems.push(FindingProblem::UnknownInTension(number));
        }
    }
    problems
}

fn of_finding(
    number: usize,
    it: &FindingDraft,
    source: &Source,
    problems: &mut Vec<FindingProblem>,
) {
    if it.claim.trim().is_empty() {
        problems.push(FindingProblem::NoClaim(number));
    }
    if it.evidence.is_empty() {
        problems.push(FindingProblem::NoEvidence(number));
    }
    for evidence in it.evidence.iter().filter(|it| !source.has(&it.section, &it.quote)) {
        problems.push(FindingProblem::NotQuoted { finding: number, quote: evidence.quote.clone() });
    }
    if let Some(phrase) = recommendation(&it.claim) {
        problems.push(FindingProblem::Recommends { finding: number, phrase });
    }
    if !(1..=3).contains(&it.strength) {
        problems.push(FindingProblem::Strength(number, it.strength));
    }
}

/// A document as quotations are looked up in it: words and numbers alone, by section.
struct Source {
    words: String,
    sections: Vec<(String, BTreeSet<String>)>,
}

impl Source {
    fn of(document: &str) -> Self {
        let sections = markdown::sections(document, |_| false);
        let sections = sections
            .iter()
            .map(|it| (words(it.title).join(" "), words(&it.body).into_iter().collect()));
        Self { words: format!(" {} ", words(document).join(" ")), sections: sections.collect() }
    }

    /// Whether a quotation stands in the document as a whole, or cell by cell in its section.
    fn has(&self, section: &str, quote: &str) -> bool {
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

/// Words in small letters, numbers with their signs and units.
fn words(text: &str) -> Vec<String> {
    let part_of_word = |it: char| it.is_alphanumeric() || matches!(it, '$' | '%' | '.' | ',' | '-');
    text.split(|it: char| !part_of_word(it))
        .map(|it| it.trim_matches(['.', ',', '-']).to_lowercase())
        .filter(|it| !it.is_empty())
        .collect()
}

/// The words by which a text gives advice, if it does: a verb that orders at the start of a sentence, or a phrase that
/// says what ought to be.
///
/// ```
/// use consulting_graph::finding::recommendation;
///
/// assert_eq!(recommendation("Receivables grew by 19.0%. Cut the credit lines."), Some("Cut".to_owned()));
/// assert_eq!(recommendation("The company should cut its costs."), Some("should".to_owned()));
/// assert_eq!(recommendation("Costs were cut by 4%."), None);
/// ```
pub fn recommendation(text: &str) -> Option<String> {
    const ORDERS: &[&str] = &[
        "accelerate",
        "acquire",
        "adopt",
        "avoid",
        "boost",
        "build",
        "buy",
        "consider",
        "cut",
        "develop",
        "divest",
        "diversify",
        "enter",
        "exit",
        "expand",
        "focus",
        "hire",
        "implement",
        "improve",
        "increase",
        "introduce",
        "invest",
        "launch",
        "leverage",
        "negotiate",
        "optimise",
        "optimize",
        "partner",
        "pause",
        "prioritise",
        "prioritize",
        "pursue",
        "raise",
        "reduce",
        "refocus",
        "renegotiate",
        "replace",
        "restructure",
        "return",
        "sell",
        "shift",
        "spend",
        "start",
        "stop",
        "strengthen",
        "target",
    ];
    const PHRASES: &[&str] = &[
        "should",
        "ought to",
        "must",
        "needs to",
        "need to",
        "has to",
        "recommend",
        "recommends",
        "we advise",
        "would do well",
        "it is time to",
        "had better",
    ];
    let sentences = text.split(['.', '!', '?', ';', '\n']);
    for sentence in sentences {
        let words: Vec<&str> = sentence
            .split(|it: char| !it.is_alphanumeric() && it != '\'')
            .filter(|it| !it.is_empty())
            .collect();
        let first = words.first().copied().unwrap_or_default();
        // `Return on equity` and `Target prices` are subjects, not orders.
        let subject = matches!(
            words.get(1).copied(),
            Some("on" | "of" | "in" | "prices" | "price" | "is" | "was" | "has")
        );
        if ORDERS.contains(&first.to_lowercase().as_str()) && !subject {
            return Some(first.to_owned());
        }
        let lower = format!(" {} ", words.join(" ").to_lowercase());
        if let Some(phrase) = PHRASES.iter().find(|it| lower.contains(&format!(" {it} "))) {
            return Some((*phrase).to_owned());
        }
    }
    None
}
