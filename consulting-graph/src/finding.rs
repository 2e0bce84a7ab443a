//! Findings: conclusions that the second layer of the pipeline draws from the source documents. They are numbered so
//! that later layers can cite them.
//!
//! A model writes a [`FindingsDraft`], and this program assigns the ids. The ids are therefore always valid, and every
//! citation such as `[F1-07]` can be checked automatically.

mod check;
mod chunk;
mod draft;
mod id;
mod markdown;
mod numbered;
mod stated;

use crate::lenient_json;

pub use check::{FindingViolation, find_recommendation, violations};
pub use chunk::{chunks, merge};
pub use draft::{Direction, Evidence, FindingDraft, FindingsDraft, Kind, TensionDraft};
pub use id::{FindingId, FindingIdError, Inference, find_citations};
pub use markdown::parse;
pub use numbered::{Finding, Findings, Tension};

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

/// Renders the findings with the given ids as Markdown, sorted by id. Prompts of a debate contain this excerpt instead
/// of all findings.
pub fn excerpts(documents: &[Findings], ids: &[FindingId]) -> String {
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    ids.dedup();
    let cited = ids.iter().filter_map(|id| documents.iter().find_map(|it| it.get(*id)));
    cited.map(markdown::render_finding).collect::<Vec<_>>().join("\n")
}
