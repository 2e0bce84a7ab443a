//! Applying a change set: all files or none, whatever happens on the way.
//!
//! Each file is exchanged for the new one in one move that also brings out what was there, so that an edit of
//! somebody else in the last moment is found and put back. What came out is never removed unless it is ours, or its
//! bytes are in the store.

use std::collections::BTreeSet;

use crate::{
    audit::{NewRecord, record_fields},
    blob,
    confine::{Content, Folder, Keep},
    digest::Digest,
    error::Error,
    gate::Held,
    journal::{Journal, Step, TAKEN_BACK},
    judge::GATE,
};

impl Held<'_> {
    /// Does all steps that are not done yet; where one cannot be done, all are taken back and the journal goes.
    pub(crate) fn apply(&self, journal: &Journal) -> Result<(), Error> {
        let take = |step: &Step| if self.is_done(step)? { Ok(()) } else { self.take(step) };
        let applied = journal.steps.iter().try_for_each(take);
        applied.and_then(|()| self.sync_folders(journal)).or_else(|error| {
            self.take_back(journal, &error)?;
            Err(error)
        })
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
        self.sync_folders(journal)?;
        self.remove_new_folders(journal);
        let more = record_fields([
            ("set", journal.set.as_str().into()),
            ("reason", cause.to_string().into()),
            ("changed_by_others", left.into()),
        ]);
        let (agent, task) = (journal.agent.as_str(), journal.task.as_str());
        self.log().append(NewRecord { agent, event: TAKEN_BACK, task, more })?;
        self.gate.journal.remove(&journal.set)
    }

    /// Lets the moves of all files outlive a power cut, a folder at a time. Folders that were made for a file are in
    /// others, which a process that died may not have synced.
    fn sync_folders(&self, journal: &Journal) -> Result<(), Error> {
        let mut folders: BTreeSet<&str> = BTreeSet::new();
        for step in &journal.steps {
            let mut folder = step.path.parent();
            folders.insert(folder);
            for _ in 0..step.new_folders {
                folder = folder.rsplit_once('/').map_or("", |(parent, _)| parent);
                folders.insert(folder);
            }
        }
        for folder in folders {
            match self.gate.root.folder(folder) {
                Ok(folder) => folder.sync()?,
                // A folder that is not there, or no longer ours to enter, holds none of our files.
                Err(error) if error.is_violation() || matches!(error, Error::Missing { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
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
        let Step { path, old, new, mode, fresh, .. } = step;
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
        self.look_at_what_came_out(&folder, step)
    }

    /// The file that was replaced must be the one that we know; otherwise it goes back.
    fn look_at_what_came_out(&self, folder: &Folder, step: &Step) -> Result<(), Error> {
        let Step { path, old, new, fresh, .. } = step;
        let is_known = old.is_none_or(|old| digest_of(folder, fresh) == Some(old));
        let in_place = folder.check_in_place();
        if is_known && in_place.is_ok() {
            return if old.is_some() { folder.remove(fresh) } else { Ok(()) };
        }
        match (old, new) {
            // Where somebody has removed ours by now it stays so, and what came out is kept.
            (Some(_), Some(_)) => {
                let is_back = folder.exchange(fresh, path.name()).is_ok();
                if is_back && digest_of(folder, fresh) != *new {
                    // Somebody saved over ours before it was back: the newest is what has the name.
                    let _ = folder.exchange(fresh, path.name());
                }
                self.discard(folder, step)?;
            }
            // Where somebody has the name by now theirs stays, and what came out is kept.
            (Some(_), None) => {
                if folder.rename_new(fresh, path.name()).is_err() {
                    self.discard(folder, step)?;
                }
            }
            (None, _) => {
                if digest_of(folder, path.name()) == *new {
                    folder.remove(path.name())?;
                }
            }
        }
        in_place.and(Err(Error::Conflict { path: path.to_string() }))
    }

    /// Removes temporary files of a process that died, and puts back what it had in hand and was not ours.
    pub(crate) fn tidy_up(&self, journal: &Journal) -> Result<(), Error> {
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
                self.discard(&folder, &step)?;
            }
        }
        Ok(())
    }

    /// Removes what lies under a step's temporary name. What is neither the step's old nor a part of its new content
    /// is somebody's: it goes to the store first, or stays where it is, and the log says so.
    fn discard(&self, folder: &Folder, step: &Step) -> Result<(), Error> {
        let content = match folder.read(&step.fresh, blob::MOST) {
            Ok(Some(content)) => content.bytes,
            Ok(None) => return Ok(()),
            Err(error) if error.is_violation() || matches!(error, Error::TooLarge { .. }) => {
                return self.note_kept(step, &step.fresh);
            }
            Err(error) => return Err(error),
        };
        let is_old = Some(Digest::of(&content)) == step.old;
        let new = step.new.and_then(|it| blob::get(&self.gate.blobs, it).ok());
        if !is_old && !new.is_some_and(|it| it.starts_with(&content)) {
            let name = Digest::of(&content).to_string();
            // Written anew even where it is there: its days count from now.
            self.gate.blobs.replace(&name, content, Keep::ThroughPowerCut)?;
            self.note_kept(step, &format!("_handoff/gate/blobs/{name}"))?;
        }
        folder.remove(&step.fresh)
    }

    fn note_kept(&self, step: &Step, kept_as: &str) -> Result<(), Error> {
        let fields = [("path", step.path.as_str().into()), ("kept_as", kept_as.into())];
        self.note(GATE, "kept_aside", "", fields)
    }

    /// Removes folders that were made for files that are not there any more, where nobody else uses them.
    pub(crate) fn remove_new_folders(&self, journal: &Journal) {
        for step in &journal.steps {
            let mut folder = step.path.parent();
            for _ in 0..step.new_folders {
                let (parent, name) = folder.rsplit_once('/').unwrap_or(("", folder));
                let Ok(opened) = self.gate.root.folder(parent) else { break };
                opened.remove_empty(name);
                folder = parent;
            }
        }
    }
}

/// The digest of a plain file; of anything else none.
fn digest_of(folder: &Folder, name: &str) -> Option<Digest> {
    folder.read(name, blob::MOST).ok().flatten().map(|it| Digest::of(&it.bytes))
}
