//! Findings as a model writes them, without ids.

use llm::Schema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limited_schema::schema_with_limits;

/// Strength of findings for which the model states none.
pub(super) const DEFAULT_STRENGTH: u8 = 2;

/// Maximum number of findings from a whole document.
pub(crate) const MAX_PER_DOCUMENT: usize = 14;

/// Maximum number of findings from a chunk of a document.
pub(crate) const MAX_PER_CHUNK: usize = 4;

/// Maximum length of a claim, a quotation or the text of a tension in an answer, in characters.
const MAX_TEXT: usize = 400;

/// Maximum length of the name of a section in an answer, in characters.
const MAX_SECTION: usize = 100;

/// A model's answer to a request for findings.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct FindingsDraft {
    /// The findings, most important first.
    pub findings: Vec<FindingDraft>,
    /// Findings that contradict each other.
    #[serde(default)]
    pub tensions: Vec<TensionDraft>,
}

impl FindingsDraft {
    /// Returns the schema of an answer with at most `max` findings. Without limits, a small model repeats itself until
    /// the answer is cut off.
    pub(crate) fn schema(max: usize) -> Schema {
        let limits = [
            ("/properties/findings", "maxItems", max),
            ("/properties/tensions", "maxItems", max / 2),
            ("/$defs/FindingDraft/properties/claim", "maxLength", MAX_TEXT),
            ("/$defs/FindingDraft/properties/evidence", "maxItems", 4),
            ("/$defs/Evidence/properties/section", "maxLength", MAX_SECTION),
            ("/$defs/Evidence/properties/quote", "maxLength", MAX_TEXT),
            ("/$defs/TensionDraft/properties/between", "maxItems", 4),
            ("/$defs/TensionDraft/properties/text", "maxLength", MAX_TEXT),
        ];
        schema_with_limits::<Self>(&limits)
    }

    /// Removes findings whose claim repeats an earlier one. Tensions then refer to the earlier finding; a tension
    /// between repetitions of one claim is removed.
    pub(super) fn without_repetitions(self) -> Self {
        let mut findings: Vec<FindingDraft> = Vec::new();
        let mut positions = Vec::new();
        for finding in self.findings {
            let known = findings.iter().position(|it| it.claim.trim() == finding.claim.trim());
            positions.push(known.unwrap_or(findings.len()) + 1);
            if known.is_none() {
                findings.push(finding);
            }
        }
        let position = |number: &u8| {
            let kept = positions.get(usize::from(*number).checked_sub(1)?)?;
            u8::try_from(*kept).ok()
        };
        let mut tensions = self.tensions;
        for it in &mut tensions {
            it.between = it.between.iter().map(|it| position(it).unwrap_or(*it)).collect();
            it.between.dedup();
        }
        tensions.retain(|it| it.between.len() > 1);
        Self { findings, tensions }
    }
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

/// A model's answer to a request for one finding.
// Contains no lists, because some models cannot write a `FindingsDraft`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) struct SingleFinding {
    /// The conclusion, in one sentence with figures, without a recommendation. Empty if the document shows nothing
    /// else.
    pub claim: String,
    /// The section that is quoted.
    #[serde(default)]
    pub section: String,
    /// The cells or the sentence, quoted verbatim.
    #[serde(default)]
    pub quote: String,
    /// Whether the finding is favourable for the company, unfavourable, or both.
    #[serde(default)]
    pub direction: Direction,
}

impl SingleFinding {
    /// Returns the schema of an answer.
    pub(crate) fn schema() -> Schema {
        let limits = [("claim", MAX_TEXT), ("section", MAX_SECTION), ("quote", MAX_TEXT)];
        let paths = limits.map(|(name, max)| (format!("/properties/{name}"), max));
        let limits = paths.each_ref().map(|(path, max)| (path.as_str(), "maxLength", *max));
        schema_with_limits::<Self>(&limits)
    }
}

impl From<SingleFinding> for FindingDraft {
    fn from(it: SingleFinding) -> Self {
        let evidence = Evidence { section: it.section, quote: it.quote };
        let has_quote = !evidence.quote.trim().is_empty();
        Self {
            claim: it.claim,
            evidence: has_quote.then_some(evidence).into_iter().collect(),
            direction: it.direction,
            strength: DEFAULT_STRENGTH,
            kind: Kind::Other,
        }
    }
}

impl From<&FindingDraft> for SingleFinding {
    fn from(it: &FindingDraft) -> Self {
        let (section, quote) = it
            .evidence
            .first()
            .map(|it| (it.section.clone(), it.quote.clone()))
            .unwrap_or_default();
        Self { claim: it.claim.clone(), section, quote, direction: it.direction }
    }
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
