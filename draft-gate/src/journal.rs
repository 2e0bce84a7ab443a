//! A decision from the moment it is made until all that follows from it is done, whatever happens on the way.
//!
//! What is written when, and what a power cut leaves:
//!
//! 1. Content that is needed to go back, then the journal, outlive a power cut before any file is touched. Until here
//!    nothing has happened.
//! 2. The files are exchanged, and their folders synced. Until the next step whoever enters does the rest, or takes all
//!    of it back.
//! 3. The log's line: with it the decision is made. Whoever finds the journal now touches no file any more.
//! 4. Message, drafts, the set: nothing of it is synced, because the journal is still there to do it again. Last of all the
//!    journal moves to what is decided, in one move: it is here, and all is done once more, or there. What a power cut
//!    brings back of the set or its drafts is known to be over by the journal's new place.

use serde::{Deserialize, Serialize};

use crate::{
    audit::{NewRecord, record_fields},
    blob,
    confine::{Keep, fresh_name},
    digest::Digest,
    error::Error,
    finding::{Finding, rules_of},
    gate::Held,
    inbox::{Message, MessageKind, message_id},
    path::WorkspacePath,
    registry::Change,
    worker::rejected_key,
};

/// A decision that is being carried out, and afterwards what is known of it.
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
    pub(crate) sight: Digest,
    /// The drafts that it is about.
    pub(crate) changes: Vec<Change>,
    pub(crate) steps: Vec<Step>,
    /// How long the log was: what came of the decision is behind this line.
    pub(crate) after_line: u64,
    pub(crate) decided_at: i64,
}

/// What was decided.
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

    /// What the worker is told; that a person has taken something back is not the worker's affair.
    fn message(self) -> Option<MessageKind> {
        match self {
            Self::Accepted => Some(MessageKind::DraftAccepted),
            Self::Rejected => Some(MessageKind::DraftRejected),
            Self::Undone => None,
        }
    }
}

/// What the log says when nothing of a decision was carried out.
pub(crate) const TAKEN_BACK: &str = "taken_back";

/// One file, from one content to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Step {
    pub(crate) path: WorkspacePath,
    /// What has to be there; absent: nothing.
    pub(crate) old: Option<Digest>,
    /// What is to be there; absent: nothing.
    pub(crate) new: Option<Digest>,
    /// Permission bits of the new file.
    pub(crate) mode: u32,
    /// The name that the new file has before it is in place, and the old one after.
    pub(crate) fresh: String,
    /// How many of the folders that it is in are there for its sake alone: they go with it.
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
        Self { path, old, new, mode, fresh: fresh_name(), new_folders }
    }

    /// The way back, over a name of its own: what a crash leaves under it can be told apart.
    pub(crate) fn reversed(&self) -> Self {
        let fresh = format!(".back{}", self.fresh);
        Self { old: self.new, new: self.old, fresh, ..self.clone() }
    }
}

impl Held<'_> {
    /// Carries a decision out: all of it, or nothing and an error.
    pub(crate) fn carry_out(&self, mut journal: Journal) -> Result<(), Error> {
        // Over a log that is not what the gate wrote this fails, before anything is touched.
        journal.after_line = self.log().length()?;
        match journal.verdict {
            Verdict::Rejected => {
                blob::secure(&self.gate.blobs, journal.changes.iter().filter_map(|it| it.content))?;
            }
            Verdict::Accepted | Verdict::Undone => {
                blob::secure(&self.gate.blobs, journal.steps.iter().filter_map(|it| it.old))?;
            }
        }
        self.gate.journal.put(&journal.set, &journal, Keep::ThroughPowerCut)?;
        self.apply(&journal)?;
        self.finish(&journal, IsLogged::NotYet)
    }

    /// Completes what a crash left, or takes it back.
    pub(crate) fn recover(&self) -> Result<(), Error> {
        for name in self.gate.journal.names()? {
            let Some(journal) = self.gate.journal.get::<Journal>(&name)? else { continue };
            match self.outcome(&journal)?.as_deref() {
                Some(TAKEN_BACK) => {
                    self.gate.journal.remove(&name)?;
                    continue;
                }
                Some(_) => self.finish(&journal, IsLogged::Already)?,
                None => {
                    self.tidy_up(&journal)?;
                    if let Err(error) = self.apply(&journal) {
                        // Taken back: the set waits again, and who judges it will see why.
                        if self.gate.journal.has(&name) { return Err(error) } else { continue }
                    }
                    self.finish(&journal, IsLogged::NotYet)?;
                }
            }
        }
        Ok(())
    }

    /// What the log says came of a decision, if it says anything.
    fn outcome(&self, journal: &Journal) -> Result<Option<String>, Error> {
        let set = Some(&serde_json::Value::from(journal.set.as_str()));
        let mut lines = self.log().since(journal.after_line)?.into_iter();
        let line = lines.find(|it| {
            it.more.get("set") == set
                && (it.event == journal.verdict.event() || it.event == TAKEN_BACK)
        });
        Ok(line.map(|it| it.event))
    }

    /// What follows from a decision, each part as often as you like: the log, the message, the drafts that go.
    fn finish(&self, journal: &Journal, is_logged: IsLogged) -> Result<(), Error> {
        let Journal { set, worker, task, verdict, .. } = journal;
        if is_logged == IsLogged::NotYet {
            self.log_decision(journal)?;
        }
        if *verdict == Verdict::Rejected {
            for change in &journal.changes {
                if let Some(content) = change.content {
                    let key = rejected_key(worker, task, &change.path);
                    self.gate.rejected.put(&key, &content, Keep::ThroughPowerCut)?;
                }
            }
        }
        if *verdict == Verdict::Undone {
            self.remove_new_folders(journal);
        }
        if let Some(kind) = verdict.message() {
            self.clear_drafts(journal)?;
            self.send(worker, &message(journal, kind))?;
            self.gate.sets.remove(set)?;
            self.forget_held(worker, task, set)?;
        }
        self.gate.journal.hand_over(set, &self.gate.decided)
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
            ("sight", journal.sight.to_string().into()),
            ("files", files.into()),
        ]);
        let event = journal.verdict.event();
        self.log().append(NewRecord { agent: &journal.agent, event, task: &journal.task, more })
    }

    fn clear_drafts(&self, journal: &Journal) -> Result<(), Error> {
        // A worker may have put a folder in its draft's place, or moved all drafts away; that must not stop anybody.
        let drafts = self.drafts().ok();
        for change in &journal.changes {
            let _ = drafts.as_ref().map(|it| it.remove(&change.draft));
            self.gate.issued.remove(&change.draft)?;
        }
        self.unlist_submissions(&journal.task, &journal.set);
        Ok(())
    }
}

/// Whether the log tells of a decision.
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
