//! Findings: what the second layer concludes from the data, numbered so that everything later can cite it.
//!
//! A model writes a [`FindingsDraft`]; numbers are given here. So an id is never wrong, and `[F1-07]` can be checked by
//! a program wherever it stands.

mod check;
mod id;
mod markdown;
mod pieces;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{answer, data::Ticker};

pub use check::{FindingProblem, problems, recommendation};
pub use id::{FindingId, FindingIdError, Inference, cited};
pub use markdown::parse;
pub use pieces::{join, pieces};

/// What a model answers when it is asked for findings.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct FindingsDraft {
    /// The findings, the weightiest first.
    pub findings: Vec<FindingDraft>,
    /// Findings that contradict each other.
    #[serde(default)]
    pub tensions: Vec<TensionDraft>,
}

/// One conclusion from the data, without advice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FindingDraft {
    /// What is the case, in one or two sentences with numbers, without advice.
    pub claim: String,
    /// What shows it, quoted from the document.
    #[serde(default)]
    pub evidence: Vec<Evidence>,
    /// Whether it speaks for the company, against it, or both.
    #[serde(default)]
    pub direction: Direction,
    /// How much it weighs: 1 a hint, 2 solid, 3 decisive.
    #[schemars(range(min = 1, max = 3))]
    pub strength: u8,
    /// What it is about.
    #[serde(default)]
    pub kind: Kind,
}

/// A quotation from the document a finding is drawn from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// The section it stands in.
    pub section: String,
    /// The cells or the sentence, as they stand there.
    pub quote: String,
}

/// For the company, against it, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// It speaks for the company.
    #[serde(alias = "+")]
    Positive,
    /// It speaks against the company.
    #[serde(alias = "-")]
    Negative,
    /// It does both, or neither.
    #[default]
    #[serde(other)]
    Mixed,
}

/// What a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Kind {
    Growth,
    Margin,
    Liquidity,
    Leverage,
    CapitalReturn,
    Efficiency,
    Guidance,
    Sentiment,
    Competitor,
    Regulation,
    Event,
    Analyst,
    Prediction,
    #[default]
    #[serde(other)]
    Other,
}

/// Findings that do not go together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TensionDraft {
    /// Their places in the list of findings, from 1.
    pub between: Vec<u8>,
    /// Why they do not go together.
    pub text: String,
}

/// The findings of one inference, numbered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Findings {
    /// Which of the two.
    pub inference: Inference,
    /// The company.
    pub ticker: Ticker,
    /// The findings, in the order of their numbers.
    pub findings: Vec<Finding>,
    /// Contradictions between them.
    pub tensions: Vec<Tension>,
}

/// A numbered finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What it is cited by.
    pub id: FindingId,
    /// What it says.
    #[serde(flatten)]
    pub draft: FindingDraft,
}

/// A contradiction between numbered findings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tension {
    /// The findings.
    pub between: Vec<FindingId>,
    /// Why they do not go together.
    pub text: String,
}

/// Reads the answer of an inference: JSON as asked for, a bare list of findings, or markdown. It never fails; what is
/// missing shows in [`problems`].
pub fn read(answer: &str) -> FindingsDraft {
    let object = answer::json(answer, |it: &FindingsDraft| !it.findings.is_empty());
    let list = || {
        let findings = answer::json(answer, |it: &Vec<FindingDraft>| !it.is_empty())?;
        Some(FindingsDraft { findings, tensions: Vec::new() })
    };
    object.or_else(list).unwrap_or_else(|| parse(answer))
}

impl Findings {
    /// Numbers the findings of a draft in their order. Of more than 99 the rest is left out, and so are tensions
    /// between findings that are not there.
    pub fn number(inference: Inference, ticker: Ticker, draft: FindingsDraft) -> Self {
        let findings: Vec<Finding> = (1..=99)
            .zip(draft.findings)
            .map(|(number, draft)| Finding { id: FindingId { inference, number }, draft })
            .collect();
        let known = |number: &u8| findings.iter().any(|it| it.id.number == *number);
        let tensions =
            draft.tensions.into_iter().filter(|it| it.between.iter().all(known)).map(|it| {
                let between =
                    it.between.iter().map(|&number| FindingId { inference, number }).collect();
                Tension { between, text: it.text }
            });
        Self { inference, ticker, tensions: tensions.collect(), findings }
    }

    /// Finds a finding by its id.
    pub fn get(&self, id: FindingId) -> Option<&Finding> {
        self.findings.iter().find(|it| it.id == id)
    }

    /// Renders the document in markdown.
    pub fn markdown(&self) -> String {
        markdown::render(self)
    }
}

/// The findings that are cited, in markdown, in the order of their ids: what a debate gets to see of them.
pub fn excerpts(documents: &[Findings], ids: &[FindingId]) -> String {
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    ids.dedup();
    let cited = ids.iter().filter_map(|id| documents.iter().find_map(|it| it.get(*id)));
    cited.map(markdown::render_finding).collect::<Vec<_>>().join("\n")
}
