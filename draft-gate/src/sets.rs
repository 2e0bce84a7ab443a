//! Change sets that are not judged yet. Drafts are added until a set is complete.

use crate::{
    audit::GATE_AGENT,
    confine::{Durability, random_hex},
    decide::PendingSet,
    digest::Digest,
    error::Error,
    escape::escape_for_message,
    gate::{Gate, LockedGate},
    journal::{Journal, Verdict},
    records::{Change, ChangeSet, SetState},
};

/// Maximum number of drafts in a change set. The contract cannot raise it.
const MAX_CHANGES: usize = 200;

/// Maximum total size, in bytes, of the drafts in a change set. It is limited because all drafts of a set are compared
/// with their files at once.
pub(crate) const MAX_BYTES: u64 = 16 << 20;

impl LockedGate<'_> {
    /// Adds a change to the incomplete set of its task, or to a new set.
    pub(crate) fn add_to_set(
        &self,
        worker: &str,
        task: &str,
        change: Change,
        more_to_come: bool,
    ) -> Result<ChangeSet, Error> {
        let incomplete_key = incomplete_key(worker, task);
        let known: Option<ChangeSet> = self.gate.sets.readable(&incomplete_key)?;
        // After a crash, the record of the incomplete set may still exist although the set was submitted.
        let known = known.filter(|it| !self.is_submitted(&it.id));
        let mut set = known.unwrap_or_else(|| ChangeSet {
            id: random_hex(),
            worker: worker.to_owned(),
            task: task.to_owned(),
            state: SetState::Incomplete,
            changes: vec![],
            submitted_at: chrono::Utc::now().timestamp_millis(),
            recorded: None,
        });
        set.changes.retain(|it| it.draft != change.draft);
        set.changes.push(change);
        check_size(&set)?;
        if more_to_come {
            self.gate.sets.put(&incomplete_key, &set, Durability::ProcessCrash)?;
        } else {
            set.state = SetState::Ready;
            self.gate.sets.put(&set.id, &set, Durability::ProcessCrash)?;
            self.gate.sets.remove(&incomplete_key)?;
        }
        Ok(set)
    }

    /// Returns whether all drafts of a set have been submitted. The set may already be decided.
    fn is_submitted(&self, set: &str) -> bool {
        self.gate.sets.has(set) || self.gate.decided.has(set)
    }

    /// Removes the record of the task's incomplete set if that set is `set`, which is now decided.
    pub(crate) fn remove_incomplete(
        &self,
        worker: &str,
        task: &str,
        set: &str,
    ) -> Result<(), Error> {
        let name = incomplete_key(worker, task);
        let incomplete: Option<ChangeSet> = self.gate.sets.readable(&name)?;
        if incomplete.is_some_and(|it| it.id == set) {
            self.gate.sets.remove(&name)
        } else {
            Ok(())
        }
    }

    /// Rejects an incomplete set. The worker gets a message and can restore the drafts.
    pub(crate) fn drop_set(&self, set: ChangeSet, agent: &str, reason: &str) -> Result<(), Error> {
        self.execute(Journal {
            fingerprint: Digest::of(&[]),
            set: set.id,
            worker: set.worker,
            task: set.task,
            agent: agent.to_owned(),
            verdict: Verdict::Rejected,
            reason: escape_for_message(reason),
            findings: vec![],
            changes: set.changes,
            steps: vec![],
            after_line: 0,
            decided_at: chrono::Utc::now().timestamp(),
        })
    }

    /// Drops incomplete sets to which no draft was added since `time` (in seconds since the Unix epoch). Returns the
    /// number of dropped sets.
    pub(crate) fn drop_stale_sets(&self, time: i64) -> Result<usize, Error> {
        let mut n_dropped = 0;
        for set in self.gate.sets_in_state(SetState::Incomplete)? {
            let name = format!("{}.json", incomplete_key(&set.worker, &set.task));
            if self.gate.sets.dir.written_at(&name).is_none_or(|it| it < time) {
                self.drop_set(set, GATE_AGENT, "no further drafts were submitted")?;
                n_dropped += 1;
            }
        }
        Ok(n_dropped)
    }
}

impl Gate {
    /// Returns the change sets that are waiting for more drafts, oldest first. They are not judged.
    pub fn incomplete(&self) -> Result<Vec<PendingSet>, Error> {
        Ok(self.sets_in_state(SetState::Incomplete)?.into_iter().map(PendingSet::of).collect())
    }

    /// Drops an incomplete change set. `start` is the set's id or a unique prefix. The worker gets a message and can
    /// restore the drafts.
    pub fn drop_incomplete(&self, start: &str, agent: &str) -> Result<String, Error> {
        let locked = self.lock()?;
        let mut sets = self
            .sets_in_state(SetState::Incomplete)?
            .into_iter()
            .filter(|it| it.id.starts_with(start));
        match (sets.next(), sets.next()) {
            (Some(set), None) => {
                let id = set.id.clone();
                locked.drop_set(set, agent, "the incomplete change set was dropped")?;
                Ok(id)
            }
            (Some(_), Some(_)) => Err(Error::AmbiguousSet { id: escape_for_message(start) }),
            (None, _) => Err(Error::UnknownSet { id: escape_for_message(start) }),
        }
    }

    /// Returns all sets in this state, oldest first. Skips decided sets that a power failure has restored.
    pub(crate) fn sets_in_state(&self, state: SetState) -> Result<Vec<ChangeSet>, Error> {
        let mut sets = vec![];
        for name in self.sets.names()? {
            let set: Option<ChangeSet> = self.sets.readable(&name)?;
            let is_stale = |it: &ChangeSet| {
                self.decided.has(&it.id) || (name != it.id && self.sets.has(&it.id))
            };
            sets.extend(set.filter(|it| it.state == state && !is_stale(it)));
        }
        sets.sort_by_key(|it| it.submitted_at);
        Ok(sets)
    }
}

/// Fails if a set is too large to be judged.
fn check_size(set: &ChangeSet) -> Result<(), Error> {
    if set.changes.len() > MAX_CHANGES {
        let reason = format!(
            "a change set may have at most {MAX_CHANGES} drafts; submit the last one without more_to_come"
        );
        return Err(Error::NotAllowed { reason });
    }
    if set.changes.iter().map(|it| it.bytes).sum::<u64>() > MAX_BYTES {
        let reason = format!(
            "the drafts of a change set may have at most {MAX_BYTES} bytes in total; submit several sets"
        );
        return Err(Error::NotAllowed { reason });
    }
    Ok(())
}

fn incomplete_key(worker: &str, task: &str) -> String {
    format!("held.{worker}.{task}")
}
