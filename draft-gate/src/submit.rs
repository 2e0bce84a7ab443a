//! The worker's tool that submits a draft.

use crate::{
    blob,
    confine::Durability,
    digest::Digest,
    error::Error,
    escape::escape_for_message,
    gate::{DRAFTS, LockedGate},
    inbox::{Message, MessageKind, message_id},
    path::WorkspacePath,
    records::{Change, ChangeSet, DraftRecord, Operation, SetState},
    scan::contains_secret,
    submissions::SubmittedDiff,
    tool::{Submission, SubmissionReceipt},
    worker::{Worker, decode_text},
};

/// Maximum length of a summary in characters.
const MAX_SUMMARY_CHARS: usize = 500;

impl Worker<'_> {
    /// Freezes the content of a draft and submits it. Once the change set is complete,
    /// [`Gate::judge`](crate::Gate::judge) can judge it.
    pub fn submit(&self, submission: &Submission) -> Result<SubmissionReceipt, Error> {
        let diff = self.diff_in_advance(submission);
        self.with_lock(&submission.task_id, |locked| self.submit_locked(locked, submission, diff))
    }

    fn submit_locked(
        &self,
        locked: &LockedGate<'_>,
        submission: &Submission,
        diff_in_advance: Option<SubmittedDiff>,
    ) -> Result<SubmissionReceipt, Error> {
        let mut issued = self.open_draft(locked, &submission.draft_path)?;
        let forged = |field, given: &str, known: &str| Error::Forged {
            draft: issued.name.clone(),
            field,
            given: escape_for_message(given),
            known: known.to_owned(),
        };
        if submission.original_path != issued.path.as_str() {
            return Err(forged("original_path", &submission.original_path, issued.path.as_str()));
        }
        if submission.task_id != issued.task {
            return Err(forged("task_id", &submission.task_id, &issued.task));
        }
        let summary: String = submission.change_summary.chars().take(MAX_SUMMARY_CHARS).collect();
        if contains_secret(&summary) {
            let reason =
                "the summary contains what looks like a secret; describe the change without it";
            return Err(Error::NotAllowed { reason: reason.to_owned() });
        }
        let content = match issued.operation {
            Operation::Delete => None,
            _ => Some(self.draft_text(locked, &issued)?),
        };
        let frozen = content.as_deref().map(|it| blob::put(&self.gate.blobs, it.as_bytes()));
        let n_bytes = content.as_ref().map_or(0, String::len).max(self.stored_bytes(issued.base)?);
        let change = Change {
            draft: issued.name.clone(),
            path: issued.path.clone(),
            operation: issued.operation,
            base: issued.base,
            content: frozen.transpose()?,
            bytes: n_bytes as u64,
            summary: escape_for_message(&summary),
        };
        let more_to_come = submission.more_to_come;
        let set = locked.add_to_set(self.name, &issued.task, change.clone(), more_to_come)?;
        issued.set = Some(set.id.clone());
        self.gate.issued.put(&issued.name, &issued, Durability::ProcessCrash)?;
        self.record_submission(locked, &set, &change, content.as_deref(), diff_in_advance)?;
        let is_complete = set.state == SetState::Ready;
        let ready = is_complete.then(|| ready_message(&set));
        if let Some(ready) = &ready {
            locked.send(self.name, ready)?;
        }
        Ok(SubmissionReceipt {
            set: set.id,
            is_complete,
            message_id: ready.map(|it| it.message_id),
        })
    }

    /// Compares a draft with its original before the lock is taken. Returns `None` if the draft cannot be read, because
    /// the submission itself reports that.
    fn diff_in_advance(&self, submission: &Submission) -> Option<SubmittedDiff> {
        let path = WorkspacePath::parse(&submission.draft_path).ok()?;
        let issued: DraftRecord = self.gate.issued.readable(path.name()).ok()??;
        if issued.worker != self.name || issued.set.is_some() {
            return None;
        }
        let content = match issued.operation {
            Operation::Delete => None,
            Operation::Edit | Operation::Create => {
                let limit = self.gate.contract().ok()?.draft_gate.max_draft_bytes;
                let content =
                    self.gate.root.subdir(DRAFTS).ok()?.read(&issued.name, limit).ok()??;
                Some(decode_text(content.bytes, &issued.name).ok()?)
            }
        };
        SubmittedDiff::new(self.gate, issued.base, content.as_deref()).ok()
    }

    /// Returns the size of stored content in bytes.
    fn stored_bytes(&self, digest: Option<Digest>) -> Result<usize, Error> {
        let bytes = digest.map(|it| blob::get(&self.gate.blobs, it)).transpose()?;
        Ok(bytes.map_or(0, |it| it.len()))
    }

    /// Adds the submission to the task's submission file and to the log.
    fn record_submission(
        &self,
        locked: &LockedGate<'_>,
        set: &ChangeSet,
        change: &Change,
        content: Option<&str>,
        diff_in_advance: Option<SubmittedDiff>,
    ) -> Result<(), Error> {
        let diff = match diff_in_advance {
            Some(diff) if diff.is_of(change) => diff,
            _ => SubmittedDiff::new(self.gate, change.base, content)?,
        };
        locked.add_submission(set, change, &diff);
        let fields = [
            ("draft", change.draft.as_str().into()),
            ("path", change.path.as_str().into()),
            ("set", set.id.as_str().into()),
            ("content", change.content.map(|it| it.to_string()).into()),
            ("added", diff.diff.added.len().into()),
            ("removed", diff.diff.removed.into()),
        ];
        locked.log_event(self.name, "submitted", &set.task, fields)
    }
}

fn ready_message(set: &ChangeSet) -> Message {
    Message {
        message_id: message_id(MessageKind::DraftReady, &set.id, ""),
        kind: MessageKind::DraftReady,
        task_id: set.task.clone(),
        set: set.id.clone(),
        paths: set.changes.iter().map(|it| it.path.to_string()).collect(),
        reason: set.changes.last().map(|it| it.summary.clone()).unwrap_or_default(),
        findings: vec![],
    }
}
