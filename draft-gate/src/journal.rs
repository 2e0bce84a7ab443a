//! Write-ahead journal: executes decisions so that they survive crashes.
//!
//! Order of writes, and the state after a power failure:
//!
//! 1. Content needed for a rollback is synced, then the journal, before any file changes. Until here nothing has
//!    happened.
//! 2. The files are exchanged and their directories synced. Until the next step, recovery completes the decision or
//!    rolls it back.
//! 3. The log line commits the decision. Recovery changes no file any more.
//! 4. The message, the drafts and the set are updated without syncing, because the journal still exists to repeat
//!    this. Finally the journal is atomically moved to `decided`. Sets or drafts that a power failure restores are
//!    recognised as stale by that.

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

/// A decision: the plan while it is executed, the record afterwards.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Journal {
    pub(crate) set: String,
    pub(crate) worker: String,
    pub(crate) task: String,
    /// Who decided.
    pub(crate) agent: String,
    pub(crate) verdict: Verdict,
    pub(crate) reason: String,
    pub(crate) findings: Vec<Finding>,
    #[serde(rename = "sight")]
    pub(crate) fingerprint: Digest,
    /// Changes of the set.
    pub(crate) changes: Vec<Change>,
    pub(crate) steps: Vec<Step>,
    /// Length of the log when the decision was made; its log line comes after this line.
    pub(crate) after_line: u64,
    pub(crate) decided_at: i64,
}

/// The decision.
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

    /// Returns the kind of message for the worker; undoing is not reported.
    fn message(self) -> Option<MessageKind> {
        match self {
            Self::Accepted => Some(MessageKind::DraftAccepted),
            Self::Rejected => Some(MessageKind::DraftRejected),
            Self::Undone => None,
        }
    }
}

/// Log event for a decision that was rolled back.
pub(crate) const ROLLED_BACK: &str = "taken_back";

/// Replaces the content of one file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Step {
    pub(crate) path: WorkspacePath,
    /// Expected current content; `None`: the file must not exist.
    pub(crate) old: Option<Digest>,
    /// New content; `None`: the file is deleted.
    pub(crate) new: Option<Digest>,
    /// Permission bits of the new file.
    pub(crate) mode: u32,
    /// Temporary name: of the new file before the exchange, of the old file afterwards.
    pub(crate) fresh: String,
    /// Number of parent directories created for this file; they are removed with it.
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

    /// Returns the reverse step. It has its own temporary name, so that leftovers of a crash are distinguishable.
    pub(crate) fn reversed(&self) -> Self {
        let fresh = format!(".back{}", self.fresh);
        Self { old: self.new, new: self.old, fresh, ..self.clone() }
    }
}

impl LockedGate<'_> {
    /// Executes a decision: all of it, or nothing and an error.
    pub(crate) fn execute(&self, mut journal: Journal) -> Result<(), Error> {
        // Fails if the log was modified, before anything changes.
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

    /// Completes decisions that a crash interrupted, or rolls them back.
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
                        // Rolled back: the set is pending again, and judging it reports the cause.
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

    /// Completes a decision: log line, message, removal of drafts. Every part may be repeated.
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
            ("sight", journal.fingerprint.to_string().into()),
            ("files", files.into()),
        ]);
        let event = journal.verdict.event();
        self.log().append(NewRecord { agent: &journal.agent, event, task: &journal.task, more })
    }

    fn clear_drafts(&self, journal: &Journal) -> Result<(), Error> {
        // Errors are ignored: a worker may have replaced its draft by a directory or moved all drafts away.
        let drafts = self.drafts().ok();
        for change in &journal.changes {
            let _ = drafts.as_ref().map(|it| it.remove(&change.draft));
            self.gate.issued.remove(&change.draft)?;
        }
        self.remove_submissions(&journal.task, &journal.set);
        Ok(())
    }
}

/// Whether the log line of a decision is already written.
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
