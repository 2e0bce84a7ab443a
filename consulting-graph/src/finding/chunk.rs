//! Splits a document into chunks, and merges the findings from these chunks.

use std::collections::BTreeSet;

use super::draft::{FindingsDraft, MAX_PER_DOCUMENT, TensionDraft};
use crate::markdown;

/// Splits a document into chunks of `lines` lines. A chunk that starts inside a section or a table begins with a copy
/// of the heading and the table header, so that it can be understood on its own.
pub(crate) fn chunks(document: &str, lines: usize) -> Vec<String> {
    let mut chunks: Vec<String> = Vec::new();
    let (mut heading, mut header): (Option<&str>, Vec<&str>) = (None, Vec::new());
    for (idx, line) in document.lines().enumerate() {
        let is_heading = markdown::parse_heading(line).is_some();
        let is_row = line.trim_start().starts_with('|');
        if !is_row {
            header.clear();
        }
        if idx % lines.max(1) == 0 {
            let title = heading.filter(|_| !is_heading);
            let before = title.into_iter().chain(header.iter().copied());
            chunks.push(before.map(|it| format!("{it}\n")).collect());
        }
        if is_heading {
            heading = Some(line);
        }
        // The first two lines of a table are the column names and the separator below them.
        if is_row && header.len() < 2 {
            header.push(line);
        }
        if let Some(chunk) = chunks.last_mut() {
            chunk.push_str(line);
            chunk.push('\n');
        }
    }
    chunks.retain(|it| !it.trim().is_empty());
    chunks
}

/// Appends the findings of a second answer to those of the first answer, except for claims that the first answer
/// already contains. Stops at the number of findings that an inference agent should produce. Keeps a tension of the
/// second answer only if all findings that it refers to are kept.
pub(crate) fn append(first: &mut FindingsDraft, second: FindingsDraft) {
    let FindingsDraft { findings, tensions } = first;
    let mut places = Vec::new();
    for finding in second.findings {
        let known = findings.iter().position(|it| it.claim.trim() == finding.claim.trim());
        if known.is_none() && findings.len() < MAX_PER_DOCUMENT {
            findings.push(finding);
            places.push(Some(findings.len()));
        } else {
            places.push(known.map(|it| it + 1));
        }
    }
    let place = |number: &u8| {
        let place = places.get(usize::from(*number).checked_sub(1)?).copied().flatten()?;
        u8::try_from(place).ok()
    };
    for TensionDraft { between, text } in second.tensions {
        let between: Option<Vec<u8>> = between.iter().map(place).collect();
        let moved = between.map(|between| TensionDraft { between, text });
        tensions.extend(moved.filter(|it| !tensions.contains(it)));
    }
}

/// Merges the drafts from several chunks. Sorts the findings by strength, strongest first, drops those that repeat a
/// claim, and drops the weakest ones if there are more than an inference agent should produce. Keeps a tension only if
/// all findings that it refers to are kept.
pub(crate) fn merge(drafts: Vec<FindingsDraft>) -> FindingsDraft {
    let mut all = Vec::new();
    let mut tensions = Vec::new();
    for (chunk, draft) in drafts.into_iter().enumerate() {
        all.extend((1_usize..).zip(draft.findings).map(|(number, it)| (chunk, number, it)));
        tensions.extend(draft.tensions.into_iter().map(|it| (chunk, it)));
    }
    all.sort_by_key(|it| std::cmp::Reverse(it.2.strength));
    let mut claims = BTreeSet::new();
    all.retain(|it| claims.insert(it.2.claim.clone()));
    all.truncate(MAX_PER_DOCUMENT);
    let place = |chunk: usize, number: u8| {
        let at = all.iter().position(|it| (it.0, it.1) == (chunk, number.into()))?;
        u8::try_from(at + 1).ok()
    };
    let moved = |(chunk, it): (usize, TensionDraft)| {
        let between =
            it.between.iter().map(|number| place(chunk, *number)).collect::<Option<_>>()?;
        Some(TensionDraft { between, text: it.text })
    };
    let tensions = tensions.into_iter().filter_map(moved).collect();
    FindingsDraft { tensions, findings: all.into_iter().map(|it| it.2).collect() }
}
