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
mod shorten;
mod stated;

use crate::lenient_json;

#[cfg(test)]
pub(crate) use check::find_recommendation;
pub(crate) use check::{FindingViolation, min_count, violations};
pub(crate) use chunk::{append, chunks, merge};
pub(crate) use draft::{
    Direction, Evidence, FindingDraft, FindingsDraft, Kind, MAX_PER_CHUNK, MAX_PER_DOCUMENT,
    SingleFinding, TensionDraft,
};
pub(crate) use id::{FindingId, Inference, find_citations};
pub(crate) use markdown::parse;
pub(crate) use numbered::{Finding, Findings, Tension};
pub(crate) use shorten::shorter_versions;

/// Reads a model's answer to a request for findings: JSON with the requested schema, a bare JSON list of findings, the
/// complete findings of JSON that is cut off, or Markdown. A repeated finding is read once. Never fails; [`violations`]
/// reports what is missing.
pub(crate) fn read(answer: &str) -> FindingsDraft {
    read_json(answer).unwrap_or_else(|| parse(answer).without_repetitions())
}

/// Reads an answer that is cut off, like [`read`]. Drops the last finding of a Markdown answer, because its text may be
/// cut off.
pub(crate) fn read_cut(answer: &str) -> FindingsDraft {
    read_json(answer).unwrap_or_else(|| {
        let mut draft = parse(answer);
        draft.findings.pop();
        draft.without_repetitions()
    })
}

/// Reads an answer like [`read`], but rejects Markdown, because a sentence in it such as "There are no others" may look
/// like a finding.
pub(crate) fn read_json(answer: &str) -> Option<FindingsDraft> {
    let single_objects = || {
        let findings: Vec<FindingDraft> = lenient_json::find_all(answer);
        has_claim(&findings).then_some(FindingsDraft { findings, tensions: Vec::new() })
    };
    whole_list(answer).or_else(single_objects).map(FindingsDraft::without_repetitions)
}

/// Returns whether an answer contains a list of findings that [`read`] cannot read as a whole, because the list is cut
/// off or contains invalid findings.
pub(crate) fn is_partial(answer: &str) -> bool {
    let starts_list = answer.split('{').next().is_some_and(|it| it.contains('['));
    (starts_list || answer.contains("\"findings\""))
        && whole_list(answer).is_none()
        && has_claim(&lenient_json::find_all::<FindingDraft>(answer))
}

/// Reads JSON with the requested schema, or a bare JSON list of findings.
fn whole_list(answer: &str) -> Option<FindingsDraft> {
    let object = lenient_json::find(answer, |it: &FindingsDraft| has_claim(&it.findings));
    object.or_else(|| {
        let findings = lenient_json::find(answer, |it: &Vec<FindingDraft>| has_claim(it))?;
        Some(FindingsDraft { findings, tensions: Vec::new() })
    })
}

fn has_claim(findings: &[FindingDraft]) -> bool {
    findings.iter().any(|it| !it.claim.trim().is_empty())
}

/// Returns whether an answer is a list without findings, which is valid for a document that shows nothing.
pub(crate) fn is_empty_list(answer: &str) -> bool {
    lenient_json::find(answer, |it: &FindingsDraft| it.findings.is_empty()).is_some()
}

/// Reads a model's answer to a request for one finding. Returns `None` if the answer cannot be read, or if it says that
/// the document shows nothing else.
pub(crate) fn read_single(answer: &str) -> Option<FindingDraft> {
    let has_claim = |claim: &str| !claim.trim().is_empty();
    let listed = read(answer).findings.into_iter().find(|it| has_claim(&it.claim));
    listed.or_else(|| {
        let single = lenient_json::find(answer, |it: &SingleFinding| has_claim(&it.claim));
        single.map(FindingDraft::from)
    })
}

/// Renders the findings with the given ids as Markdown, sorted by id. Prompts of a debate contain this excerpt instead
/// of all findings.
pub(crate) fn excerpts(documents: &[Findings], ids: &[FindingId]) -> String {
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    ids.dedup();
    let cited = ids.iter().filter_map(|id| documents.iter().find_map(|it| it.get(*id)));
    cited.map(markdown::render_finding).collect::<Vec<_>>().join("\n")
}
