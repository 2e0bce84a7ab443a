//! Retention: removes the content of decided and abandoned drafts after some time. Pending change sets stay.

use std::collections::BTreeSet;

use crate::{
    audit::GATE_AGENT,
    confine::{Dir, is_temp_name},
    digest::Digest,
    error::Error,
    gate::{Gate, LockedGate},
    journal::Journal,
    records::{Change, ChangeSet, DraftRecord},
};

/// Number of items that were removed, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PruneSummary {
    /// Decided change sets. Those that were accepted can no longer be undone.
    pub decided: usize,
    /// Incomplete change sets and drafts that were never submitted.
    pub abandoned: usize,
    /// Rejected drafts. They can no longer be restored.
    pub rejected: usize,
    /// Stored contents that nothing refers to any more.
    pub blobs: usize,
    /// Inboxes that were removed because they were stale, or truncated because they were too long.
    pub inboxes: usize,
    /// Temporary files that crashed processes left, and files that a power failure corrupted.
    pub temporary: usize,
}

const DAY: i64 = 24 * 60 * 60;

impl Gate {
    /// Removes the content of drafts that were decided more than `retention_days` ago, as set in the contract. Also
    /// removes drafts that were abandoned for as long, that is, drafts that were never submitted or belong to a change
    /// set that was never completed.
    ///
    /// The log and all change sets that are waiting for a decision are kept.
    pub fn prune(&self) -> Result<PruneSummary, Error> {
        self.prune_before(
            chrono::Utc::now().timestamp()
                - i64::from(self.contract()?.draft_gate.retention_days) * DAY,
        )
    }

    /// Does the same as [`prune`](Self::prune), but for items older than `time`, in seconds since the Unix epoch.
    pub fn prune_before(&self, time: i64) -> Result<PruneSummary, Error> {
        let locked = self.lock()?;
        let mut pruned = PruneSummary {
            abandoned: locked.drop_stale_sets(time)? + locked.remove_stale_drafts(time)?,
            temporary: locked.remove_temp_files()? + locked.remove_corrupt_sets(time)?,
            inboxes: locked.prune_inboxes(time)?,
            ..PruneSummary::default()
        };
        let mut needed = self.digests_of_undecided()?;
        for name in self.decided.names()? {
            let Some(journal) = self.decided.readable::<Journal>(&name)? else { continue };
            if journal.decided_at < time {
                self.decided.remove(&name)?;
                pruned.decided += 1;
            } else {
                needed.extend(journal.changes.iter().flat_map(digests));
                needed.extend(journal.steps.iter().flat_map(|it| [it.old, it.new]).flatten());
            }
        }
        for name in self.rejected.names()? {
            let is_old =
                self.rejected.dir.written_at(&format!("{name}.json")).is_none_or(|it| it < time);
            if is_old {
                self.rejected.remove(&name)?;
                pruned.rejected += 1;
            } else {
                needed.extend(self.rejected.readable::<Digest>(&name)?);
            }
        }
        for name in self.blobs.names()? {
            let digest: Option<Digest> = name.parse().ok();
            let is_old = self.blobs.written_at(&name).is_none_or(|it| it < time);
            if is_old && digest.is_none_or(|it| !needed.contains(&it)) {
                self.blobs.remove(&name)?;
                pruned.blobs += 1;
            }
        }
        let counts = [
            ("decided", pruned.decided.into()),
            ("abandoned", pruned.abandoned.into()),
            ("rejected", pruned.rejected.into()),
            ("blobs", pruned.blobs.into()),
        ];
        locked.log_event(GATE_AGENT, "pruned", "", counts)?;
        Ok(pruned)
    }

    /// Returns the digests of all contents that undecided drafts and sets need.
    fn digests_of_undecided(&self) -> Result<BTreeSet<Digest>, Error> {
        let mut needed = BTreeSet::new();
        for name in self.issued.names()? {
            needed.extend(self.issued.readable::<DraftRecord>(&name)?.and_then(|it| it.base));
        }
        for name in self.sets.names()? {
            let set: Option<ChangeSet> = self.sets.readable(&name)?;
            needed.extend(set.iter().flat_map(|it| &it.changes).flat_map(digests));
        }
        Ok(needed)
    }
}

impl LockedGate<'_> {
    /// Removes drafts that were requested before `time` and never submitted, and remaining drafts whose set is already
    /// decided.
    fn remove_stale_drafts(&self, time: i64) -> Result<usize, Error> {
        let mut n_removed = 0;
        for name in self.gate.issued.names()? {
            let is_wanted = match self.draft(&name)? {
                Some(issued) => issued.set.is_some() || issued.requested_at / 1000 >= time,
                None => false,
            };
            if !is_wanted {
                let _ = self.drafts().map(|it| it.remove(&name));
                self.gate.issued.remove(&name)?;
                n_removed += 1;
            }
        }
        Ok(n_removed)
    }

    /// Removes the gate's temporary files, because nothing uses them while the lock is held.
    pub(crate) fn remove_temp_files(&self) -> Result<usize, Error> {
        let gate = self.gate;
        let record_dirs = [&gate.issued, &gate.sets, &gate.journal, &gate.decided, &gate.rejected];
        let mut dirs: Vec<&Dir> = record_dirs.map(|it| &it.dir).to_vec();
        dirs.extend([&gate.state, &gate.handoff, &gate.blobs, &gate.inboxes]);
        let mut n_removed = 0;
        for dir in dirs {
            for name in dir.names()?.into_iter().filter(|it| is_temp_name(it)) {
                dir.remove(&name)?;
                n_removed += 1;
            }
        }
        // Ignore errors in the drafts directory, because a worker may have put a directory there under such a name.
        if let Ok(drafts) = self.drafts() {
            let names = drafts.names()?;
            let removed = names.iter().filter(|it| is_temp_name(it) && drafts.remove(it).is_ok());
            n_removed += removed.count();
        }
        Ok(n_removed)
    }

    /// Removes the records of sets that are already decided, and unreadable records that were written before `time`.
    fn remove_corrupt_sets(&self, time: i64) -> Result<usize, Error> {
        let gate = self.gate;
        let mut n_removed = 0;
        for name in gate.sets.names()? {
            let file = format!("{name}.json");
            let is_old = gate.sets.dir.written_at(&file).is_none_or(|it| it < time);
            let is_over = gate.decided.has(&name);
            if is_over || (is_old && gate.sets.readable::<ChangeSet>(&name)?.is_none()) {
                gate.sets.remove(&name)?;
                n_removed += 1;
            }
        }
        Ok(n_removed)
    }
}

fn digests(change: &Change) -> impl Iterator<Item = Digest> + use<> {
    [change.base, change.content].into_iter().flatten()
}
