//! Findings with the ids that later layers cite.

use serde::{Deserialize, Serialize};

use super::{
    draft::{FindingDraft, FindingsDraft},
    id::{FindingId, Inference},
};
use crate::data::Ticker;

/// The numbered findings that one inference derived from its source document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Findings {
    pub inference: Inference,
    pub ticker: Ticker,
    /// The findings, sorted by id.
    pub findings: Vec<Finding>,
    pub tensions: Vec<Tension>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub id: FindingId,
    #[serde(flatten)]
    pub draft: FindingDraft,
}

/// A contradiction between numbered findings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tension {
    pub between: Vec<FindingId>,
    /// How the findings contradict each other.
    pub text: String,
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

    pub fn get(&self, id: FindingId) -> Option<&Finding> {
        self.findings.iter().find(|it| it.id == id)
    }
}
