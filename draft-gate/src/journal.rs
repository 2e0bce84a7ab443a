//! The write-ahead journal, which makes the execution of decisions crash-safe.
//!
//! A decision is executed in this order:
//!
//! 1. Before any file is changed, the content that a rollback needs is synced, and then the journal. Up to this point,
//!    a power failure leaves all files unchanged.
//! 2. The files are exchanged, and their directories are synced. Until the next step, recovery completes the decision
//!    or rolls it back.
//! 3. The log line commits the decision. From now on, recovery changes no file.
//! 4. The message is sent, and the drafts and the set are removed, without syncing. If a power failure reverts these
//!    changes, recovery repeats them, because the journal still exists. Finally the journal is atomically moved to
//!    `decided`. If a power failure restores sets or drafts after that, their entry in `decided` shows that they are
//!    stale.

use serde::{Deserialize, Serialize};

use crate::{
    audit::{NewRecord, record_fields},
    blob,
    confine::{Durability, temp_name},
    digest::Digest,
    error::Error,
    finding::{Finding, rules_of},
    gate::LockedGate,
    inbox::{Message, MessageKind, message_id},
    path::WorkspacePath,
    records::Change,
    worker::rejected_key,
};

/// A decision on a change set. While the decision is being executed, this is the plan; afterwards, it is the record.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Journal {
    pub(crate) set: String,
    pub(crate) worker: String,
    pub(crate) task: String,
    /// Name of the person or program that made the decision.
    pub(crate) agent: String,
    pub(crate) verdict: Verdict,
    pub(crate) reason: String,
    pub(crate) findings: Vec<Finding>,
    pub(crate) fingerprint: Digest,
    pub(crate) changes: Vec<Change>,
    pub(crate) steps: Vec<Step>,
    /// Number of log lines when the decision was made. The log line of the decision comes after them.
    pub(crate) after_line: u64,
    pub(crate) decided_at: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    Accepted,
    Rejected,
    Undone,
}

impl Verdict {
    fn event(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Rejected => "rejected",
            Self::Undone => "undone",
        }
    }

    /// Returns the kind of message to send to the worker. Undoing a set is not reported to the worker.
    fn message(self) -> Option<MessageKind> {
        match self {
            Self::Accepted => Some(MessageKind::DraftAccepted),
            Self::Rejected => Some(MessageKind::DraftRejected),
            Self::Undone => None,
        }
    }
}

/// Name of the log event for a decision that was rolled back. The name is part of the log format and cannot change.
pub(crate) const ROLLED_BACK: &str = "taken_back";

/// Replaces, creates or deletes one file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Step {
    pub(crate) path: WorkspacePath,
    /// Digest of the expected current content; `None` if the file must not exist.
    pub(crate) old: Option<Digest>,
    /// Digest of the new content; `None` if the file is to be deleted.
    pub(crate) new: Option<Digest>,
    /// Permission bits of the new file.
    pub(crate) mode: u32,
    /// Temporary name. The new file has this name before the exchange, and the old file has it afterwards.
    pub(crate) fresh: String,
    /// Number of parent directories that are created for this file. They are removed together with the file.
    #[serde(default)]
    pub(crate) new_folders: usize,
}

impl Step {
    pub(crate) fn new(
        path: WorkspacePath,
        old: Option<Digest>,
        new: Option<Digest>,
        mode: u32,
        new_folders: usize,
    ) -> Self {
        Self { path, old, new, mode, fresh: temp_name(), new_folders }
    }

    /// Returns the step that reverts this one. It has its own temporary name, so that the temporary files of the two
    /// steps can be distinguished after a crash.
    pub(crate) fn reversed(&self) -> Self {
        let fresh = format!(".back{}", self.fresh);
        Self { old: self.new, new: self.old, fresh, ..self.clone() }
    }
}

impl LockedGate<'_> {
    /// Executes a decision completely, or changes nothing and returns an error.
    pub(crate) fn execute(&self, mut journal: Journal) -> Result<(), Error> {
        // If the log was modified, this call fails before anything is changed.
        journal.after_line = self.log().length()?;
        match journal.verdict {
            Verdict::Rejected => {
                blob::sync_all(
                    &self.gate.blobs,
                    journal.changes.iter().filter_map(|it| it.content),
                )?;
            }
            Verdict::Accepted | Verdict::Undone => {
                blob::sync_all(&self.gate.blobs, journal.steps.iter().filter_map(|it| it.old))?;
            }
        }
        self.gate.journal.put(&journal.set, &journal, Durability::PowerLoss)?;
        self.apply(&journal)?;
        self.finish(&journal, IsLogged::NotYet)
    }

    /// Completes or rolls back the decisions that a crash interrupted.
    pub(crate) fn recover(&self) -> Result<(), Error> {
        for name in self.gate.journal.names()? {
            let Some(journal) = self.gate.journal.get::<Journal>(&name)? else { continue };
            match self.outcome(&journal)?.as_deref() {
                Some(ROLLED_BACK) => {
                    self.gate.journal.remove(&name)?;
                    continue;
                }
                Some(_) => self.finish(&journal, IsLogged::Already)?,
                None => {
                    self.clean_up_temp_files(&journal)?;
                    if let Err(error) = self.apply(&journal) {
                        // If the journal was removed, the decision was rolled back. The set is pending again, and
                        // judging it reports the cause, so the error can be ignored here.
                        if self.gate.journal.has(&name) { return Err(error) } else { continue }
                    }
                    self.finish(&journal, IsLogged::NotYet)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the log event that ended the decision, if there is one.
    fn outcome(&self, journal: &Journal) -> Result<Option<String>, Error> {
        let set = Some(&serde_json::Value::from(journal.set.as_str()));
        let mut lines = self.log().since(journal.after_line)?.into_iter();
        let line = lines.find(|it| {
            it.more.get("set") == set
                && (it.event == journal.verdict.event() || it.event == ROLLED_BACK)
        });
        Ok(line.map(|it| it.event))
    }

    /// Completes a decision: writes the log line, sends the message and removes the drafts. Can be called again after a
    /// crash.
    fn finish(&self, journal: &Journal, is_logged: IsLogged) -> Result<(), Error> {
        let Journal { set, worker, task, verdict, .. } = journal;
        if is_logged == IsLogged::NotYet {
            self.log_decision(journal)?;
        }
        if *verdict == Verdict::Rejected {
            for change in &journal.changes {
                if let Some(content) = change.content {
                    let key = rejected_key(worker, task, &change.path);
                    self.gate.rejected.put(&key, &content, Durability::PowerLoss)?;
                }
            }
        }
        if *verdict == Verdict::Undone {
            self.remove_new_dirs(journal);
        }
        if let Some(kind) = verdict.message() {
            self.clear_drafts(journal)?;
            self.send(worker, &message(journal, kind))?;
            self.gate.sets.remove(set)?;
            self.remove_incomplete(worker, task, set)?;
        }
        self.gate.journal.move_to(set, &self.gate.decided)
    }

    fn log_decision(&self, journal: &Journal) -> Result<(), Error> {
        let files: Vec<_> = journal
            .steps
            .iter()
            .map(|it| serde_json::json!({"path": it.path, "old": it.old, "new": it.new}))
            .collect();
        let more = record_fields([
            ("set", journal.set.as_str().into()),
            ("worker", journal.worker.as_str().into()),
            ("reason", journal.reason.as_str().into()),
            ("rules", rules_of(&journal.findings).into()),
            ("fingerprint", journal.fingerprint.to_string().into()),
            ("files", files.into()),
        ]);
        let event = journal.verdict.event();
        self.log().append(NewRecord { agent: &journal.agent, event, task: &journal.task, more })
    }

    fn clear_drafts(&self, journal: &Journal) -> Result<(), Error> {
        // Ignore errors, because a worker may have replaced its draft with a directory or moved the drafts directory
        // away.
        let drafts = self.drafts().ok();
        for change in &journal.changes {
            let _ = drafts.as_ref().map(|it| it.remove(&change.draft));
            self.gate.issued.remove(&change.draft)?;
        }
        self.remove_submissions(&journal.task, &journal.set);
        Ok(())
    }
}

/// Whether the log line of a decision has already been written.
#[derive(Clone, Copy, Debug, PartialEq)]
enum IsLogged {
    Already,
    NotYet,
}

fn message(journal: &Journal, kind: MessageKind) -> Message {
    Message {
        message_id: message_id(kind, &journal.set, ""),
        kind,
        task_id: journal.task.clone(),
        set: journal.set.clone(),
        paths: journal.changes.iter().map(|it| it.path.to_string()).collect(),
        reason: journal.reason.clone(),
        findings: journal.findings.clone(),
    }
}
