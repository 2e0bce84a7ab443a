//! Change sets before they are judged: drafts are added until the set is complete, and one that never is goes again.

use crate::{
    confine::{Keep, random_hex},
    decide::Waiting,
    digest::Digest,
    error::{Error, shown},
    gate::{Gate, Held},
    journal::{Journal, Verdict},
    judge::GATE,
    registry::{Change, ChangeSet, SetState},
};

/// A change set holds no more drafts than this, whatever its contract says.
const MOST_CHANGES: usize = 200;

/// A change set's drafts hold no more bytes than this together: all of them are compared at once.
pub(crate) const MOST_BYTES: u64 = 16 << 20;

impl Held<'_> {
    /// Adds a change to the set of its task that is held, or to a new one.
    pub(crate) fn add_to_set(
        &self,
        worker: &str,
        task: &str,
        change: Change,
        more_to_come: bool,
    ) -> Result<ChangeSet, Error> {
        let held_name = held_name(worker, task);
        let known: Option<ChangeSet> = self.gate.sets.readable(&held_name)?;
        // A crash may have left the set here after it was handed in: its id is taken.
        let known = known.filter(|it| !self.is_handed_in(&it.id));
        let mut set = known.unwrap_or_else(|| ChangeSet {
            id: random_hex(),
            worker: worker.to_owned(),
            task: task.to_owned(),
            state: SetState::Held,
            changes: vec![],
            submitted_at: chrono::Utc::now().timestamp_millis(),
            found: None,
        });
        set.changes.retain(|it| it.draft != change.draft);
        set.changes.push(change);
        check_size(&set)?;
        if more_to_come {
            self.gate.sets.put(&held_name, &set, Keep::ThroughCrash)?;
        } else {
            set.state = SetState::Ready;
            self.gate.sets.put(&set.id, &set, Keep::ThroughCrash)?;
            self.gate.sets.remove(&held_name)?;
        }
        Ok(set)
    }

    /// Whether a set is complete, be it judged or not.
    fn is_handed_in(&self, set: &str) -> bool {
        self.gate.sets.has(set) || self.gate.decided.has(set)
    }

    /// Removes a held set that was decided as it is.
    pub(crate) fn forget_held(&self, worker: &str, task: &str, set: &str) -> Result<(), Error> {
        let name = held_name(worker, task);
        let held: Option<ChangeSet> = self.gate.sets.readable(&name)?;
        if held.is_some_and(|it| it.id == set) { self.gate.sets.remove(&name) } else { Ok(()) }
    }

    /// Rejects a set that is held: its worker is told, and can take its drafts up again.
    pub(crate) fn drop_set(&self, set: ChangeSet, agent: &str, reason: &str) -> Result<(), Error> {
        self.carry_out(Journal {
            sight: Digest::of(&[]),
            set: set.id,
            worker: set.worker,
            task: set.task,
            agent: agent.to_owned(),
            verdict: Verdict::Rejected,
            reason: shown(reason),
            findings: vec![],
            changes: set.changes,
            steps: vec![],
            after_line: 0,
            decided_at: chrono::Utc::now().timestamp(),
        })
    }

    /// Drops sets to which nothing was added since a time, in seconds since 1970, and counts them.
    pub(crate) fn drop_old_sets(&self, time: i64) -> Result<usize, Error> {
        let mut n_dropped = 0;
        for set in self.gate.sets_in(SetState::Held)? {
            let name = format!("{}.json", held_name(&set.worker, &set.task));
            if self.gate.sets.folder.written_at(&name).is_none_or(|it| it < time) {
                self.drop_set(set, GATE, "no more drafts came")?;
                n_dropped += 1;
            }
        }
        Ok(n_dropped)
    }
}

impl Gate {
    /// Change sets whose worker said that more drafts are to come, the oldest first: nobody judges them as they are.
    pub fn held(&self) -> Result<Vec<Waiting>, Error> {
        Ok(self.sets_in(SetState::Held)?.into_iter().map(Waiting::of).collect())
    }

    /// Drops a change set that is held, by its id or a beginning of it. Its worker is told, and can take its drafts up
    /// again.
    pub fn drop_held(&self, start: &str, agent: &str) -> Result<String, Error> {
        let held = self.enter()?;
        let mut sets =
            self.sets_in(SetState::Held)?.into_iter().filter(|it| it.id.starts_with(start));
        match (sets.next(), sets.next()) {
            (Some(set), None) => {
                let id = set.id.clone();
                held.drop_set(set, agent, "the set was not completed, and was dropped")?;
                Ok(id)
            }
            (Some(_), Some(_)) => Err(Error::SeveralSets { id: shown(start) }),
            (None, _) => Err(Error::NoSuchSet { id: shown(start) }),
        }
    }

    /// All sets that are so far, the oldest first. What a power cut brought back of a decided one is none.
    pub(crate) fn sets_in(&self, state: SetState) -> Result<Vec<ChangeSet>, Error> {
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
    if set.changes.len() > MOST_CHANGES {
        let reason = format!(
            "a change set has at most {MOST_CHANGES} drafts; submit the last one without more_to_come"
        );
        return Err(Error::NotAllowed { reason });
    }
    if set.changes.iter().map(|it| it.bytes).sum::<u64>() > MOST_BYTES {
        let reason = format!(
            "the drafts of a change set hold at most {MOST_BYTES} bytes together; make several sets"
        );
        return Err(Error::NotAllowed { reason });
    }
    Ok(())
}

fn held_name(worker: &str, task: &str) -> String {
    format!("held.{worker}.{task}")
}
