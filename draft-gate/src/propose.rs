//! Computes the effect of a change set on the current files, and the findings about it.

use crate::{
    blob,
    comparison::{Comparisons, Text},
    confine::permissions::new_file_mode,
    contract::{Contract, OnConflict},
    digest::Digest,
    error::Error,
    escape::escape_for_message,
    evaluate::{file_findings, set_findings},
    finding::{Finding, Severity},
    gate::LockedGate,
    journal::{Journal, Step, Verdict},
    judgement::{Decision, Judgement},
    path::WorkspacePath,
    proposed_file::ProposedFile,
    records::{Change, ChangeSet, Operation, RecordedFindings, SetState},
};

/// Maximum number of findings that are stored with a decision. The most severe ones are kept. Without this limit, the
/// findings of a large set could exceed the maximum size of a record.
const MAX_STORED_FINDINGS: usize = 500;

/// A change set and its effect on the current files.
#[derive(Debug)]
pub(crate) struct Proposal {
    pub(crate) set: ChangeSet,
    pub(crate) files: Vec<ProposedFile>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) fingerprint: Digest,
    /// Whether the contract requires checks that have not run on this state of the project.
    pub(crate) lacks_checks: bool,
}

impl LockedGate<'_> {
    /// Returns a change set that is complete and not decided yet.
    fn set(&self, id: &str) -> Result<ChangeSet, Error> {
        let set: Option<ChangeSet> = self.gate.sets.get(id)?;
        // Skip decided sets, because a power failure may restore a set that was already decided.
        let is_waiting =
            |it: &ChangeSet| it.state != SetState::Incomplete && !self.gate.decided.has(id);
        set.filter(is_waiting).ok_or_else(|| Error::UnknownSet { id: escape_for_message(id) })
    }

    /// Computes the effect of a change set on the current files. `comparisons` contains what was computed before the
    /// lock was taken.
    pub(crate) fn propose(
        &self,
        id: &str,
        contract: &Contract,
        comparisons: &Comparisons,
    ) -> Result<Proposal, Error> {
        let set = self.set(id)?;
        let mut findings = vec![];
        let mut files = vec![];
        for change in &set.changes {
            match self.propose_file(change, contract, comparisons, &mut findings) {
                Ok(file) => files.push(file),
                // The set cannot be applied. Record this as a finding instead of failing, so that the set does not
                // block others.
                Err(error) => findings.push(refusal(&error).in_file(&change.path)),
            }
        }
        findings.extend(set_findings(&files, contract));
        findings.sort_by_key(|it| std::cmp::Reverse(it.severity));
        let fingerprint = fingerprint(&set, &files);
        Ok(Proposal { set, files, findings, fingerprint, lacks_checks: false })
    }

    fn propose_file(
        &self,
        change: &Change,
        contract: &Contract,
        comparisons: &Comparisons,
        findings: &mut Vec<Finding>,
    ) -> Result<ProposedFile, Error> {
        let path = change.path.clone().ensure_unprotected()?;
        contract.allow(change.operation, &path)?;
        let current = self.gate.root.read(path.as_str(), blob::MAX_BYTES)?;
        let mode = current.as_ref().map_or_else(new_file_mode, |it| it.mode);
        let current = current.map(|it| it.bytes);
        let is_text = current.as_deref().is_none_or(|it| str::from_utf8(it).is_ok());
        // Store the current content, because a rollback needs it.
        if let Some(current) = &current {
            blob::put(&self.gate.blobs, current)?;
        }
        let old = Text::new(current);
        let is_foreign = old.digest != change.base;
        if is_foreign && !is_text {
            // Refuse content that is not UTF-8, because a diff or merge would corrupt it.
            return Err(Error::NotText { path: path.to_string() });
        }
        let mut new = self.stored_text(change.content)?;
        if is_foreign {
            new = self.reconcile(change, &old, new, contract, comparisons, findings)?;
        }
        let file = ProposedFile {
            change: change.clone(),
            current: old.digest,
            comparison: comparisons.compare(self.gate, &path, &old, &new),
            new: new.digest,
            new_text: new.text,
            mode,
            new_folders: self.missing_folders(&path),
        };
        let about_file = file_findings(&file, &old.text, contract);
        findings.extend(about_file.into_iter().map(|it| it.in_file(&path)));
        Ok(file)
    }

    fn stored_text(&self, digest: Option<Digest>) -> Result<Text, Error> {
        Ok(Text::new(digest.map(|it| blob::get(&self.gate.blobs, it)).transpose()?))
    }

    /// Counts how many parent directories of a file do not exist yet.
    fn missing_folders(&self, path: &WorkspacePath) -> usize {
        let mut n_missing = 0;
        let mut dir = path.parent();
        while !dir.is_empty() && matches!(self.gate.root.subdir(dir), Err(Error::Missing { .. })) {
            n_missing += 1;
            dir = dir.rsplit_once('/').map_or("", |(parent, _)| parent);
        }
        n_missing
    }

    /// Applies the contract's conflict rule if the original was changed after the draft was requested.
    fn reconcile(
        &self,
        change: &Change,
        old: &Text,
        new: Text,
        contract: &Contract,
        comparisons: &Comparisons,
        findings: &mut Vec<Finding>,
    ) -> Result<Text, Error> {
        let on_conflict = contract.draft_gate.on_conflict;
        let base = self.stored_text(change.base)?;
        let is_edit = change.operation == Operation::Edit;
        let merge = || comparisons.merge(self.gate, &change.path, [&base, old, &new]);
        let merged = is_edit.then(merge).flatten();
        let mut find = |severity, text: &str| {
            findings.push(Finding::new("conflict", severity, text).in_file(&change.path));
        };
        match (on_conflict, merged) {
            (OnConflict::Reject, _) => {
                find(Severity::Reject, "the file was changed after the draft was requested")
            }
            (on_conflict, Some(merged)) => {
                let severity = if on_conflict == OnConflict::Merge {
                    Severity::Note
                } else {
                    Severity::Escalate
                };
                find(
                    severity,
                    "the file was changed after the draft was requested; both changes are merged",
                );
                let digest = blob::put(&self.gate.blobs, merged.as_bytes())?;
                return Ok(Text { digest: Some(digest), text: merged.as_ref().to_owned() });
            }
            (_, None) => find(
                Severity::Escalate,
                "the file was changed after the draft was requested, and the changes conflict; \
                 accepting discards the current content of the file",
            ),
        }
        Ok(new)
    }
}

impl Proposal {
    /// Adds findings that cannot be recomputed from the files, and stores them with the set.
    pub(crate) fn record(&mut self, new: RecordedFindings) {
        self.findings.extend(new.findings.iter().cloned());
        match &mut self.set.recorded {
            Some(found) if found.applies_to == new.applies_to => {
                let is_new = |it: &Finding| !found.findings.contains(it);
                let findings: Vec<Finding> = new.findings.into_iter().filter(is_new).collect();
                found.findings.extend(findings);
            }
            found => *found = Some(new),
        }
    }

    /// Fails if any file in the set cannot be examined, because a set can only be applied as a whole.
    pub(crate) fn require_complete(&self) -> Result<(), Error> {
        if self.is_complete() {
            return Ok(());
        }
        let why = self.findings.iter().find(|it| it.rule == "original");
        let why = why.map(ToString::to_string).unwrap_or_default();
        let reason = format!(
            "a change set is applied as a whole, but one of its files cannot be applied: {why}; reject the set"
        );
        Err(Error::NotAllowed { reason })
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.files.len() == self.set.changes.len()
    }

    pub(crate) fn judgement(&self, decision: Decision) -> Judgement {
        Judgement {
            set: self.set.id.clone(),
            decision,
            findings: self.findings.clone(),
            fingerprint: self.fingerprint,
            diff: self.files.iter().map(ProposedFile::unified).collect(),
        }
    }

    pub(crate) fn journal(&self, agent: &str, verdict: Verdict, reason: &str) -> Journal {
        let steps = self.files.iter().filter(|it| it.current != it.new);
        let steps = steps.map(|it| {
            Step::new(it.change.path.clone(), it.current, it.new, it.mode, it.new_folders)
        });
        Journal {
            set: self.set.id.clone(),
            worker: self.set.worker.clone(),
            task: self.set.task.clone(),
            agent: agent.to_owned(),
            verdict,
            reason: reason.chars().take(500).collect(),
            findings: self.findings.iter().take(MAX_STORED_FINDINGS).cloned().collect(),
            fingerprint: self.fingerprint,
            changes: self.set.changes.clone(),
            steps: if verdict == Verdict::Rejected { vec![] } else { steps.collect() },
            after_line: 0,
            decided_at: chrono::Utc::now().timestamp(),
        }
    }
}

/// Converts an error about a file into a finding. A forbidden change leads to a rejection, and any other failure to an
/// escalation.
fn refusal(error: &Error) -> Finding {
    let is_forbidden =
        error.is_violation() || matches!(error, Error::NotAllowed { .. } | Error::TooLarge { .. });
    let severity = if is_forbidden { Severity::Reject } else { Severity::Escalate };
    Finding::new("original", severity, error.to_string())
}

/// Returns the fingerprint that binds a verdict to the reviewed state. It covers the current and the new content of
/// each file, or the fact that a file could not be examined.
fn fingerprint(set: &ChangeSet, files: &[ProposedFile]) -> Digest {
    let line = |change: &Change| match files.iter().find(|it| it.change == *change) {
        Some(file) => format!("{} {:?} {:?}\n", change.path, file.current, file.new),
        None => format!("{} refused {:?}\n", change.path, change.content),
    };
    Digest::of(set.changes.iter().map(line).collect::<String>().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of stored findings must be bounded. With all findings of many files, the record would be too large to
    /// read.
    #[test]
    fn stored_findings_of_a_decision_are_bounded() {
        let set = ChangeSet {
            id: "1".to_owned(),
            worker: "w".to_owned(),
            task: "t".to_owned(),
            state: SetState::Ready,
            changes: vec![],
            submitted_at: 0,
            recorded: None,
        };
        let fingerprint = Digest::of(&[]);
        let findings = vec![Finding::new("home-path", Severity::Reject, "x"); 4_000];
        let proposal = Proposal { set, files: vec![], findings, fingerprint, lacks_checks: false };
        let journal = proposal.journal("draft-gate", Verdict::Rejected, "x");
        assert_eq!(journal.findings.len(), MAX_STORED_FINDINGS);
    }
}
