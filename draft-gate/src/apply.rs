//! Applying a change set: all files or none, whatever happens on the way.
//!
//! What is to be done is written to a journal first. Each file is then exchanged for the new one in one
//! move that also brings out what was there, so that an edit of somebody else in the last moment is found and put
//! back. A process that dies leaves the journal, and whoever enters the gate next completes it, or takes all of it back
//! where somebody else has changed a file.

use serde::{Deserialize, Serialize};

use crate::{
    audit::{NewRecord, record_fields},
    blob,
    confine::{Content, Folder, Keep, fresh_name},
    digest::Digest,
    error::Error,
    finding::{Finding, rules_of},
    gate::Held,
    inbox::{Message, MessageKind, message_id},
    path::WorkspacePath,
    registry::Change,
    worker::rejected_key,
};

/// A decision that is being carried out.
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
    /// Whether all steps are done: from here on files may change again.
    pub(crate) is_applied: bool,
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
}

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
}

impl Step {
    pub(crate) fn new(
        path: WorkspacePath,
        old: Option<Digest>,
        new: Option<Digest>,
        mode: u32,
    ) -> Self {
        Self { path, old, new, mode, fresh: fresh_name() }
    }

    /// The way back, over a name of its own: what a crash leaves under it can be told apart.
    pub(crate) fn reversed(&self) -> Self {
        let fresh = format!(".back{}", self.fresh);
        Self { path: self.path.clone(), old: self.new, new: self.old, mode: self.mode, fresh }
    }
}

impl Held<'_> {
    /// Carries a decision out: all of it, or nothing and an error.
    pub(crate) fn carry_out(&self, mut journal: Journal) -> Result<(), Error> {
        self.gate.journal.put(&journal.set, &journal)?;
        self.apply(&mut journal)?;
        self.finish(&journal)
    }

    /// Completes what a crash left, or takes it back.
    pub(crate) fn recover(&self) -> Result<(), Error> {
        for name in self.gate.journal.names()? {
            let Some(mut journal) = self.gate.journal.get::<Journal>(&name)? else { continue };
            if !journal.is_applied {
                self.tidy_up(&journal)?;
                if let Err(error) = self.apply(&mut journal) {
                    // Taken back: the set waits again, and who judges it will see why.
                    let is_taken_back = self.gate.journal.get::<Journal>(&name)?.is_none();
                    if is_taken_back { continue } else { return Err(error) }
                }
            }
            self.finish(&journal)?;
        }
        Ok(())
    }

    /// Does all steps that are not done yet; where one cannot be done, all are taken back and the journal goes.
    fn apply(&self, journal: &mut Journal) -> Result<(), Error> {
        for step in &journal.steps {
            if self.is_done(step)? {
                continue;
            }
            if let Err(error) = self.take(step) {
                self.take_back(journal, &error)?;
                return Err(error);
            }
        }
        if !journal.steps.is_empty() {
            journal.is_applied = true;
            self.gate.journal.put(&journal.set, journal)?;
        }
        Ok(())
    }

    /// Undoes all steps that are done. The journal goes with the last of them: a set of which a part stays applied
    /// is not taken back.
    fn take_back(&self, journal: &Journal, cause: &Error) -> Result<(), Error> {
        let mut left = vec![];
        for step in journal.steps.iter().rev() {
            let is_done = self.is_done(step);
            match is_done.and_then(|it| if it { self.take(&step.reversed()) } else { Ok(()) }) {
                Ok(()) => {}
                // Where somebody is faster than we are their bytes stay.
                Err(Error::Conflict { path }) => left.push(path),
                Err(error) => {
                    return Err(Error::NotTakenBack {
                        set: journal.set.clone(),
                        path: step.path.to_string(),
                        cause: cause.to_string(),
                        fault: error.to_string(),
                    });
                }
            }
        }
        let fields = record_fields([
            ("set", journal.set.as_str().into()),
            ("reason", cause.to_string().into()),
            ("changed_by_others", left.into()),
        ]);
        let record = NewRecord {
            agent: &journal.agent,
            event: "taken_back",
            task: &journal.task,
            more: fields,
        };
        self.log().append(record)?;
        self.gate.journal.remove(&journal.set)
    }

    /// Whether a step's new content is in place. Something that is no plain file is neither old nor new.
    fn is_done(&self, step: &Step) -> Result<bool, Error> {
        match self.gate.root.read(step.path.as_str(), blob::MOST) {
            Ok(content) => Ok(content.map(|it| Digest::of(&it.bytes)) == step.new),
            Err(error) if error.is_violation() || matches!(error, Error::TooLarge { .. }) => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Brings one file from its old to its new content.
    fn take(&self, step: &Step) -> Result<(), Error> {
        let Step { path, old, new, mode, fresh } = step;
        let folder = match new {
            Some(_) => self.gate.root.make_folder(path.parent())?,
            None => self.gate.root.folder(path.parent())?,
        };
        if let Some(new) = new {
            let bytes = blob::get(&self.gate.blobs, *new)?;
            folder.write_new(fresh, &Content { bytes, mode: *mode }, Keep::ThroughPowerCut)?;
        }
        let moved = match (old, new) {
            (Some(_), Some(_)) => folder.exchange(fresh, path.name()),
            (None, _) => folder.rename_new(fresh, path.name()),
            (Some(_), None) => folder.rename_new(path.name(), fresh),
        };
        if let Err(error) = moved {
            if new.is_some() {
                folder.remove(fresh)?;
            }
            return Err(match error {
                Error::Missing { .. } | Error::Exists { .. } => {
                    Error::Conflict { path: path.to_string() }
                }
                other => other,
            });
        }
        self.look_at_what_came_out(&folder, step)?;
        folder.sync()
    }

    /// The file that was replaced must be the one that we know; otherwise it goes back.
    fn look_at_what_came_out(&self, folder: &Folder, step: &Step) -> Result<(), Error> {
        let Step { path, old, new, fresh, .. } = step;
        let is_known = match old {
            None => true,
            Some(old) => {
                let content = folder.read(fresh, blob::MOST).ok().flatten();
                content.is_some_and(|it| Digest::of(&it.bytes) == *old)
            }
        };
        let in_place = folder.check_in_place();
        if is_known && in_place.is_ok() {
            return if old.is_some() { folder.remove(fresh) } else { Ok(()) };
        }
        match (old, new) {
            (Some(_), Some(_)) => {
                folder.exchange(fresh, path.name())?;
                folder.remove(fresh)?;
            }
            (Some(_), None) => folder.rename_new(fresh, path.name())?,
            (None, _) => folder.remove(path.name())?,
        }
        in_place.and(Err(Error::Conflict { path: path.to_string() }))
    }

    /// Removes temporary files of a process that died, and puts back what it had in hand and was not ours.
    fn tidy_up(&self, journal: &Journal) -> Result<(), Error> {
        for step in journal.steps.iter().flat_map(|it| [it.clone(), it.reversed()]) {
            let Ok(folder) = self.gate.root.folder(step.path.parent()) else { continue };
            if !folder.has(&step.fresh) {
                continue;
            }
            let was_moved = step.old.is_some() && self.is_done(&step)?;
            if was_moved {
                match self.look_at_what_came_out(&folder, &step) {
                    Err(Error::Conflict { .. }) => {}
                    other => other?,
                }
            } else {
                folder.remove(&step.fresh)?;
            }
        }
        Ok(())
    }

    /// What follows from a decision, each part as often as you like: the log, the message, the drafts that go.
    fn finish(&self, journal: &Journal) -> Result<(), Error> {
        let Journal { set, worker, task, verdict, .. } = journal;
        self.log_decision(journal)?;
        self.gate.decided.put(set, journal)?;
        if *verdict == Verdict::Rejected {
            for change in &journal.changes {
                if let Some(content) = change.content {
                    let key = rejected_key(worker, task, &change.path);
                    self.gate.rejected.put(&key, &content)?;
                }
            }
        }
        if *verdict != Verdict::Undone {
            self.clear_drafts(journal)?;
            self.send(worker, &decision_message(journal))?;
            self.gate.sets.remove(set)?;
        }
        self.gate.journal.remove(set)
    }

    fn log_decision(&self, journal: &Journal) -> Result<(), Error> {
        let event = journal.verdict.event();
        // Nothing is logged between a crash and its recovery, so a line of ours is the last.
        let last = self.log().last()?;
        if last.is_some_and(|it| {
            it.event == event && it.more.get("set") == Some(&journal.set.as_str().into())
        }) {
            return Ok(());
        }
        let rules = rules_of(&journal.findings);
        let files: Vec<_> = journal
            .steps
            .iter()
            .map(|it| serde_json::json!({"path": it.path, "old": it.old, "new": it.new}))
            .collect();
        let more = record_fields([
            ("set", journal.set.as_str().into()),
            ("worker", journal.worker.as_str().into()),
            ("reason", journal.reason.as_str().into()),
            ("rules", rules.into()),
            ("sight", journal.sight.to_string().into()),
            ("files", files.into()),
        ]);
        let record = NewRecord { agent: &journal.agent, event, task: &journal.task, more };
        self.log().append(record)
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

fn decision_message(journal: &Journal) -> Message {
    let kind = match journal.verdict {
        Verdict::Rejected => MessageKind::DraftRejected,
        Verdict::Accepted | Verdict::Undone => MessageKind::DraftAccepted,
    };
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
