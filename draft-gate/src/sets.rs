//! Change sets before they are judged: drafts are added until the set is complete, and one that never is goes again.

use crate::{
    confine::{Durability, random_hex},
    decide::PendingSet,
    digest::Digest,
    error::{Error, escape_for_message},
    gate::{Gate, LockedGate},
    journal::{Journal, Verdict},
    judge::GATE_AGENT,
    records::{Change, ChangeSet, SetState},
};

/// A change set holds no more drafts than this, whatever its contract says.
const MAX_CHANGES: usize = 200;

/// A change set's drafts hold no more bytes than this together: all of them are compared at once.
pub(crate) const MAX_BYTES: u64 = 16 << 20;

impl LockedGate<'_> {
    /// Adds a change to the set of its task that is held, or to a new one.
    pub(crate) fn add_to_set(
        &self,
        worker: &str,
        task: &str,
        change: Change,
        more_to_come: bool,
    ) -> Result<ChangeSet, Error> {
        let incomplete_key = incomplete_key(worker, task);
        let known: Option<ChangeSet> = self.gate.sets.readable(&incomplete_key)?;
        // A crash may have left the set here after it was handed in: its id is taken.
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

    /// Whether a set is complete, be it judged or not.
    fn is_submitted(&self, set: &str) -> bool {
        self.gate.sets.has(set) || self.gate.decided.has(set)
    }

    /// Removes a held set that was decided as it is.
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

    /// Rejects a set that is held: its worker is told, and can take its drafts up again.
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

    /// Drops sets to which nothing was added since a time, in seconds since 1970, and counts them.
    pub(crate) fn drop_stale_sets(&self, time: i64) -> Result<usize, Error> {
        let mut n_dropped = 0;
        for set in self.gate.sets_in_state(SetState::Incomplete)? {
            let name = format!("{}.json", incomplete_key(&set.worker, &set.task));
            if self.gate.sets.dir.written_at(&name).is_none_or(|it| it < time) {
                self.drop_set(set, GATE_AGENT, "no more drafts came")?;
                n_dropped += 1;
            }
        }
        Ok(n_dropped)
    }
}

impl Gate {
    /// Change sets whose worker said that more drafts are to come, the oldest first: nobody judges them as they are.
    pub fn incomplete(&self) -> Result<Vec<PendingSet>, Error> {
        Ok(self.sets_in_state(SetState::Incomplete)?.into_iter().map(PendingSet::of).collect())
    }

    /// Drops a change set that is held, by its id or a beginning of it. Its worker is told, and can take its drafts up
    /// again.
    pub fn drop_incomplete(&self, start: &str, agent: &str) -> Result<String, Error> {
        let locked = self.lock()?;
        let mut sets = self
            .sets_in_state(SetState::Incomplete)?
            .into_iter()
            .filter(|it| it.id.starts_with(start));
        match (sets.next(), sets.next()) {
            (Some(set), None) => {
                let id = set.id.clone();
                locked.drop_set(set, agent, "the set was not completed, and was dropped")?;
                Ok(id)
            }
            (Some(_), Some(_)) => Err(Error::AmbiguousSet { id: escape_for_message(start) }),
            (None, _) => Err(Error::UnknownSet { id: escape_for_message(start) }),
        }
    }

    /// All sets that are so far, the oldest first. What a power cut brought back of a decided one is none.
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

/// Fails where a set has become too large to be judged at once.
fn check_size(set: &ChangeSet) -> Result<(), Error> {
    if set.changes.len() > MAX_CHANGES {
        let reason = format!(
            "a change set has at most {MAX_CHANGES} drafts; submit the last one without more_to_come"
        );
        return Err(Error::NotAllowed { reason });
    }
    if set.changes.iter().map(|it| it.bytes).sum::<u64>() > MAX_BYTES {
        let reason = format!(
            "the drafts of a change set hold at most {MAX_BYTES} bytes together; make several sets"
        );
        return Err(Error::NotAllowed { reason });
    }
    Ok(())
}

fn incomplete_key(worker: &str, task: &str) -> String {
    format!("held.{worker}.{task}")
}
