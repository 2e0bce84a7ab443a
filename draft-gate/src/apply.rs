//! Applies a change set atomically: either all of its files are changed or none, even across crashes.
//!
//! Each file is exchanged with its new version in one system call that also yields the replaced file. If the replaced
//! file does not have the content that the gate expects, another program has edited it concurrently, and the gate
//! restores that program's version. A replaced file is deleted only if the gate wrote it or its content is in the blob
//! store.

use std::collections::BTreeSet;

use crate::{
    audit::{GATE_AGENT, NewRecord, record_fields},
    blob,
    confine::{Content, Dir, Durability},
    digest::Digest,
    error::Error,
    gate::LockedGate,
    journal::{Journal, ROLLED_BACK, Step},
};

impl LockedGate<'_> {
    /// Applies all steps that are still pending. If a step fails, rolls back all steps and removes the journal.
    pub(crate) fn apply(&self, journal: &Journal) -> Result<(), Error> {
        let apply = |step: &Step| if self.is_done(step)? { Ok(()) } else { self.apply_step(step) };
        let applied = journal.steps.iter().try_for_each(apply);
        applied.and_then(|()| self.sync_dirs(journal)).or_else(|error| {
            self.roll_back(journal, &error)?;
            Err(error)
        })
    }

    /// Reverts all applied steps. Removes the journal only after the last step is reverted, so that a crash cannot
    /// leave a partially applied set without a journal.
    fn roll_back(&self, journal: &Journal, cause: &Error) -> Result<(), Error> {
        let mut changed_by_others = vec![];
        for step in journal.steps.iter().rev() {
            let is_done = self.is_done(step);
            match is_done.and_then(|it| if it { self.apply_step(&step.reversed()) } else { Ok(()) })
            {
                Ok(()) => {}
                // If another program has changed the file in the meantime, keep that program's content.
                Err(Error::Conflict { path }) => changed_by_others.push(path),
                Err(error) => {
                    return Err(Error::RollbackFailed {
                        set: journal.set.clone(),
                        path: step.path.to_string(),
                        cause: cause.to_string(),
                        fault: error.to_string(),
                    });
                }
            }
        }
        self.sync_dirs(journal)?;
        self.remove_new_dirs(journal);
        let more = record_fields([
            ("set", journal.set.as_str().into()),
            ("reason", cause.to_string().into()),
            ("changed_by_others", changed_by_others.into()),
        ]);
        let (agent, task) = (journal.agent.as_str(), journal.task.as_str());
        self.log().append(NewRecord { agent, event: ROLLED_BACK, task, more })?;
        self.gate.journal.remove(&journal.set)
    }

    /// Syncs the directories of all files. Newly created parent directories are included, because a process that
    /// crashed may not have synced them.
    fn sync_dirs(&self, journal: &Journal) -> Result<(), Error> {
        let mut dirs: BTreeSet<&str> = BTreeSet::new();
        for step in &journal.steps {
            let mut dir = step.path.parent();
            dirs.insert(dir);
            for _ in 0..step.new_folders {
                dir = dir.rsplit_once('/').map_or("", |(parent, _)| parent);
                dirs.insert(dir);
            }
        }
        for dir in dirs {
            match self.gate.root.subdir(dir) {
                Ok(dir) => dir.sync()?,
                // A directory that is missing or no longer safe to open contains none of the gate's files and needs no
                // sync.
                Err(error) if error.is_violation() || matches!(error, Error::Missing { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns whether the step's new content is in place. Returns `false` for anything but a regular file and for a
    /// file that is too large.
    fn is_done(&self, step: &Step) -> Result<bool, Error> {
        match self.gate.root.read(step.path.as_str(), blob::MAX_BYTES) {
            Ok(content) => Ok(content.map(|it| Digest::of(&it.bytes)) == step.new),
            Err(error) if error.is_violation() || matches!(error, Error::TooLarge { .. }) => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Replaces the old content of one file with the new content.
    fn apply_step(&self, step: &Step) -> Result<(), Error> {
        let Step { path, old, new, mode, fresh, .. } = step;
        let dir = match new {
            Some(_) => self.gate.root.create_dir(path.parent())?,
            None => self.gate.root.subdir(path.parent())?,
        };
        if let Some(new) = new {
            let bytes = blob::get(&self.gate.blobs, *new)?;
            dir.write_new(fresh, &Content { bytes, mode: *mode }, Durability::PowerLoss)?;
        }
        let moved = match (old, new) {
            (Some(_), Some(_)) => dir.exchange(fresh, path.name()),
            (None, _) => dir.rename_new(fresh, path.name()),
            (Some(_), None) => dir.rename_new(path.name(), fresh),
        };
        if let Err(error) = moved {
            if new.is_some() {
                dir.remove(fresh)?;
            }
            return Err(match error {
                Error::Missing { .. } | Error::Exists { .. } => {
                    Error::Conflict { path: path.to_string() }
                }
                other => other,
            });
        }
        self.check_replaced_file(&dir, step)
    }

    /// Checks that the replaced file has the old content that the step expects, and that the directory is still in
    /// place. If not, restores the replaced file and returns an error.
    fn check_replaced_file(&self, dir: &Dir, step: &Step) -> Result<(), Error> {
        let Step { path, old, new, fresh, .. } = step;
        let is_known = old.is_none_or(|old| digest_of(dir, fresh) == Some(old));
        let in_place = dir.check_in_place();
        if is_known && in_place.is_ok() {
            return if old.is_some() { dir.remove(fresh) } else { Ok(()) };
        }
        match (old, new) {
            // If another program has removed the new file in the meantime, the file stays removed, and the replaced
            // file is kept in the blob store.
            (Some(_), Some(_)) => {
                let is_back = dir.exchange(fresh, path.name()).is_ok();
                if is_back && digest_of(dir, fresh) != *new {
                    // Another program saved the file again before the exchange was reverted. Put this newest version
                    // back in place.
                    let _ = dir.exchange(fresh, path.name());
                }
                self.discard(dir, step)?;
            }
            // If another program has created a file with this name, that file stays, and the removed file is kept in
            // the blob store.
            (Some(_), None) => {
                if dir.rename_new(fresh, path.name()).is_err() {
                    self.discard(dir, step)?;
                }
            }
            (None, _) => {
                if digest_of(dir, path.name()) == *new {
                    dir.remove(path.name())?;
                }
            }
        }
        in_place.and(Err(Error::Conflict { path: path.to_string() }))
    }

    /// Cleans up the temporary files that a crashed process left. If a temporary file is a replaced file that another
    /// program had edited, restores it; otherwise removes it.
    pub(crate) fn clean_up_temp_files(&self, journal: &Journal) -> Result<(), Error> {
        for step in journal.steps.iter().flat_map(|it| [it.clone(), it.reversed()]) {
            let Ok(dir) = self.gate.root.subdir(step.path.parent()) else { continue };
            if !dir.has(&step.fresh) {
                continue;
            }
            let was_moved = step.old.is_some() && self.is_done(&step)?;
            if was_moved {
                match self.check_replaced_file(&dir, &step) {
                    Err(Error::Conflict { .. }) => {}
                    other => other?,
                }
            } else {
                self.discard(&dir, &step)?;
            }
        }
        Ok(())
    }

    /// Removes the temporary file of a step. If its content is neither the step's old content nor a part of its new
    /// content, the content belongs to another program. In that case, moves the content to the blob store (or leaves
    /// the file in place if it cannot be read) and records its location in the log.
    fn discard(&self, dir: &Dir, step: &Step) -> Result<(), Error> {
        let content = match dir.read(&step.fresh, blob::MAX_BYTES) {
            Ok(Some(content)) => content.bytes,
            Ok(None) => return Ok(()),
            Err(error) if error.is_violation() || matches!(error, Error::TooLarge { .. }) => {
                return self.log_kept_file(step, &step.fresh);
            }
            Err(error) => return Err(error),
        };
        let is_old = Some(Digest::of(&content)) == step.old;
        let new = step.new.and_then(|it| blob::get(&self.gate.blobs, it).ok());
        if !is_old && !new.is_some_and(|it| it.starts_with(&content)) {
            let name = Digest::of(&content).to_string();
            // Write the content even if it is already stored, so that its retention period starts now.
            self.gate.blobs.replace(&name, content, Durability::PowerLoss)?;
            self.log_kept_file(step, &format!("_handoff/gate/blobs/{name}"))?;
        }
        dir.remove(&step.fresh)
    }

    fn log_kept_file(&self, step: &Step, kept_as: &str) -> Result<(), Error> {
        let fields = [("path", step.path.as_str().into()), ("kept_as", kept_as.into())];
        self.log_event(GATE_AGENT, "kept_aside", "", fields)
    }

    /// Removes the parent directories that were created for the journal's files, if these directories are empty.
    pub(crate) fn remove_new_dirs(&self, journal: &Journal) {
        for step in &journal.steps {
            let mut dir = step.path.parent();
            for _ in 0..step.new_folders {
                let (parent, name) = dir.rsplit_once('/').unwrap_or(("", dir));
                let Ok(opened) = self.gate.root.subdir(parent) else { break };
                opened.remove_empty(name);
                dir = parent;
            }
        }
    }
}

/// Returns the digest of a regular file, or `None` for anything else.
fn digest_of(dir: &Dir, name: &str) -> Option<Digest> {
    dir.read(name, blob::MAX_BYTES).ok().flatten().map(|it| Digest::of(&it.bytes))
}
