//! Findings: conclusions that the second layer of the pipeline draws from the source documents. They are numbered so
//! that later layers can cite them.
//!
//! A model writes a [`FindingsDraft`], and this program assigns the ids. The ids are therefore always valid, and every
//! citation such as `[F1-07]` can be checked automatically.

mod check;
mod chunk;
mod id;
mod markdown;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{data::Ticker, lenient_json};

pub use check::{FindingViolation, find_recommendation, violations};
pub use chunk::{chunks, merge};
pub use id::{FindingId, FindingIdError, Inference, find_citations};
pub use markdown::parse;

/// A model's answer to a request for findings.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct FindingsDraft {
    /// The findings, most important first.
    pub findings: Vec<FindingDraft>,
    /// Findings that contradict each other.
    #[serde(default)]
    pub tensions: Vec<TensionDraft>,
}

/// One conclusion from the data, without a recommendation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FindingDraft {
    /// The conclusion, in one or two sentences with figures, without a recommendation.
    pub claim: String,
    /// Supporting quotations from the document.
    #[serde(default)]
    pub evidence: Vec<Evidence>,
    /// Whether the finding is favourable for the company, unfavourable, or both.
    #[serde(default)]
    pub direction: Direction,
    /// Weight of the finding: 1 weak, 2 solid, 3 decisive.
    #[schemars(range(min = 1, max = 3))]
    pub strength: u8,
    /// The topic.
    #[serde(default)]
    pub kind: Kind,
}

/// A quotation from the document that a finding is based on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// The section that is quoted.
    pub section: String,
    /// The cells or the sentence, quoted verbatim.
    pub quote: String,
}

/// Favourable for the company, unfavourable, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Favourable.
    #[serde(alias = "+")]
    Positive,
    /// Unfavourable.
    #[serde(alias = "-")]
    Negative,
    /// Both, or neither.
    #[default]
    #[serde(other)]
    Mixed,
}

/// Topic of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are self-explanatory")]
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

/// Findings that contradict each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TensionDraft {
    /// Positions of the findings in the list, counted from 1.
    pub between: Vec<u8>,
    /// How they contradict each other.
    pub text: String,
}

/// The numbered findings that one inference derived from its source document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Findings {
    /// The inference that produced the findings.
    pub inference: Inference,
    /// The company that the findings are about.
    pub ticker: Ticker,
    /// The findings, sorted by id.
    pub findings: Vec<Finding>,
    /// Contradictions between the findings.
    pub tensions: Vec<Tension>,
}

/// A numbered finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The id used in citations.
    pub id: FindingId,
    /// The content.
    #[serde(flatten)]
    pub draft: FindingDraft,
}

/// A contradiction between numbered findings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tension {
    /// The findings.
    pub between: Vec<FindingId>,
    /// How they contradict each other.
    pub text: String,
}

/// Reads a model's answer to a request for findings: JSON with the requested schema, a bare JSON list of findings, or
/// Markdown. Never fails; [`violations`] reports what is missing.
pub fn read(answer: &str) -> FindingsDraft {
    let object = lenient_json::find(answer, |it: &FindingsDraft| !it.findings.is_empty());
    let list = || {
        let findings = lenient_json::find(answer, |it: &Vec<FindingDraft>| !it.is_empty())?;
        Some(FindingsDraft { findings, tensions: Vec::new() })
    };
    object.or_else(list).unwrap_or_else(|| parse(answer))
}

impl Findings {
    /// Numbers the findings of a draft. Drops findings after the 99th, and tensions that refer to unknown findings.
    pub fn from_draft(inference: Inference, ticker: Ticker, draft: FindingsDraft) -> Self {
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

    /// Returns the finding with the given id.
    pub fn get(&self, id: FindingId) -> Option<&Finding> {
        self.findings.iter().find(|it| it.id == id)
    }

    /// Renders the findings as Markdown.
    pub fn markdown(&self) -> String {
        markdown::render(self)
    }
}

/// Renders the findings with the given ids as Markdown, sorted by id. Prompts of a debate contain this excerpt instead
/// of all findings.
pub fn excerpts(documents: &[Findings], ids: &[FindingId]) -> String {
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    ids.dedup();
    let cited = ids.iter().filter_map(|id| documents.iter().find_map(|it| it.get(*id)));
    cited.map(markdown::render_finding).collect::<Vec<_>>().join("\n")
}
