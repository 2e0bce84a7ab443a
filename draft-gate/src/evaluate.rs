//! Findings about files and whole change sets, and the decision that follows from all findings.

use crate::{
    contract::{Contract, Preview},
    diff::{DiffPrecision, MAX_LINES},
    finding::{Finding, Severity},
    judgement::Decision,
    proposed_file::ProposedFile,
    records::Operation,
    tool_files::reason_for_review,
    unicode::{ascii_lookalike_word, lookalike_word},
};

/// Returns the decision that the most severe finding requires under this contract.
pub(crate) fn decision(findings: &[Finding], contract: &Contract) -> Decision {
    let severity = findings.iter().map(|it| it.severity).max().unwrap_or(Severity::Note);
    match (severity, contract.draft_gate.preview) {
        (Severity::Reject, _) | (Severity::Escalate, Preview::Never) => Decision::Reject,
        (Severity::Escalate, _) => Decision::Escalate,
        (Severity::Note, _) => Decision::Accept,
    }
}

/// Returns the findings about one file. Findings in added lines come first, then those about the whole change.
pub(crate) fn file_findings(file: &ProposedFile, old: &str, contract: &Contract) -> Vec<Finding> {
    let mut findings = file.comparison.findings.clone();
    let mut find = |rule, severity, text: &str| findings.push(Finding::new(rule, severity, text));
    if file.current == file.new {
        find("no-change", Severity::Reject, "the draft equals the current file");
    }
    if file.change.operation == Operation::Delete {
        find("deletion", Severity::Escalate, "the file would be deleted");
    } else if file.new_text.trim().is_empty() && !old.trim().is_empty() {
        find("empty-draft", Severity::Reject, "the draft is empty and the file is not");
    }
    let path = &file.change.path;
    let new_text = file.current.is_none().then_some(file.new_text.as_str());
    if let Some(reason) = reason_for_review(path, new_text)
        && !contract.draft_gate.allows_tool_file(path)
    {
        let text = format!("{reason}; the contract can allow it in `allowed_tool_files`");
        find("tool-configuration", Severity::Escalate, &text);
    }
    if lookalike_word(path.as_str()).or_else(|| ascii_lookalike_word(path.as_str())).is_some() {
        let text = "the path looks like ASCII text, but has other letters";
        find("confusable-path", Severity::Escalate, text);
    }
    match file.diff().precision {
        DiffPrecision::Exact => {}
        DiffPrecision::Coarse => find(
            "coarse-diff",
            Severity::Escalate,
            "the change is too complex to be compared exactly; the diff shows some unchanged lines as removed and added",
        ),
        DiffPrecision::Omitted => find(
            "too-many-lines",
            Severity::Escalate,
            &format!(
                "the file has more than {MAX_LINES} lines, so it was neither compared nor scanned; \
                 inspect the whole draft"
            ),
        ),
    }
    if file.diff().is_line_ends_only {
        find("line-ends", Severity::Escalate, "only line endings change");
    }
    if file.new_text.contains('\u{fffd}') && !old.contains('\u{fffd}') {
        find(
            "not-text",
            Severity::Escalate,
            "the draft has replacement characters (U+FFFD), which indicate broken text",
        );
    }
    findings
}

/// Returns the findings about the change set as a whole.
pub(crate) fn set_findings(files: &[ProposedFile], contract: &Contract) -> Vec<Finding> {
    let mut findings = vec![];
    let rules = &contract.draft_gate;
    for file in files.iter().filter(|it| it.change.operation == Operation::Edit) {
        let ratio = file.diff().deletion_ratio();
        if ratio > rules.max_deletion_ratio {
            let text = format!(
                "{:.0} % of the lines are removed or rewritten; the texts are {:.0} % similar",
                ratio * 100.0,
                file.diff().similarity() * 100.0
            );
            findings.push(
                Finding::new("deletion-ratio", Severity::Escalate, text).in_file(&file.change.path),
            );
        }
    }
    findings.extend(path_clashes(files));
    let changed: u32 = files.iter().map(|it| it.diff().changed()).fold(0, u32::saturating_add);
    let max_lines = contract.constraints.max_diff_lines;
    if changed > max_lines {
        let text =
            format!("the number of changed lines is {changed}; the contract allows {max_lines}");
        findings.push(Finding::new("scope", Severity::Escalate, text));
    }
    if files.len() > rules.max_files {
        let text = format!(
            "the number of files is {}; the contract allows {}",
            files.len(),
            rules.max_files
        );
        findings.push(Finding::new("scope", Severity::Escalate, text));
    }
    if rules.preview == Preview::Always {
        findings.push(Finding::new(
            "preview",
            Severity::Escalate,
            "the contract requires a review of every change",
        ));
    }
    findings
}

/// Returns findings for files in a set that cannot coexist: a file where another path needs a directory, or two names
/// that differ only in letter case.
fn path_clashes(files: &[ProposedFile]) -> Vec<Finding> {
    let mut created: Vec<(String, &ProposedFile)> = files
        .iter()
        .filter(|it| it.new.is_some())
        .map(|it| (format!("{}/", it.change.path.as_str().to_lowercase()), it))
        .collect();
    // With a trailing slash, a path sorts directly before all paths beneath it, so paths that clash are adjacent.
    created.sort_by(|one, other| one.0.cmp(&other.0));
    let clash = |pair: &[(String, &ProposedFile)]| {
        let path = &pair[0].1.change.path;
        let text = if pair[0].0 == pair[1].0 {
            format!(
                "the set also has `{path}`, which differs only in letter case; rename one of the two files"
            )
        } else if pair[1].0.starts_with(&pair[0].0) {
            format!(
                "the set has `{path}` as a file, but this path needs it as a directory; \
                     rename the file or the directory"
            )
        } else {
            return None;
        };
        let finding = Finding::new("clash", Severity::Reject, text);
        Some(finding.in_file(&pair[1].1.change.path))
    };
    created.windows(2).filter_map(clash).collect()
}
