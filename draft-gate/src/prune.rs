//! Retention: content of decided drafts goes after a while, what waits stays.

use std::collections::BTreeSet;

use crate::{
    apply::Journal,
    confine::is_fresh_name,
    digest::Digest,
    error::Error,
    gate::Gate,
    registry::{Change, ChangeSet, Issued},
};

/// What a pruning removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Decided change sets: accepted ones can no longer be undone.
    pub decided: usize,
    /// Rejected drafts that can no longer be restored.
    pub rejected: usize,
    /// Contents that nothing needs.
    pub blobs: usize,
    /// Temporary files of processes that died.
    pub temporary: usize,
}

const DAY: i64 = 24 * 60 * 60;

impl Gate {
    /// Removes content of drafts that were decided longer ago than the contract's `retention_days`.
    ///
    /// The log stays as it is, and so does everything that waits for a decision.
    pub fn prune(&self) -> Result<Pruned, Error> {
        self.prune_before(
            chrono::Utc::now().timestamp()
                - i64::from(self.contract()?.draft_gate.retention_days) * DAY,
        )
    }

    /// Removes content of drafts that were decided before a time, in seconds since 1970.
    pub fn prune_before(&self, time: i64) -> Result<Pruned, Error> {
        let held = self.enter()?;
        let mut pruned = Pruned::default();
        let mut needed = self.needed_by_waiting()?;
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
                self.rejected.folder.written_at(&format!("{name}.json")).is_none_or(|it| it < time);
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
        let drafts = held.drafts()?;
        for name in drafts.names()?.into_iter().filter(|it| is_fresh_name(it)) {
            drafts.remove(&name)?;
            pruned.temporary += 1;
        }
        let counts = [
            ("decided", pruned.decided.into()),
            ("rejected", pruned.rejected.into()),
            ("blobs", pruned.blobs.into()),
        ];
        held.note("draft-gate", "pruned", "", counts)?;
        Ok(pruned)
    }

    /// Content of drafts that are open, held, ready or escalated.
    fn needed_by_waiting(&self) -> Result<BTreeSet<Digest>, Error> {
        let mut needed = BTreeSet::new();
        for name in self.issued.names()? {
            needed.extend(self.issued.readable::<Issued>(&name)?.and_then(|it| it.base));
        }
        for name in self.sets.names()? {
            let set: Option<ChangeSet> = self.sets.readable(&name)?;
            needed.extend(set.iter().flat_map(|it| &it.changes).flat_map(digests));
        }
        Ok(needed)
    }
}

fn digests(change: &Change) -> impl Iterator<Item = Digest> + use<> {
    [change.base, change.content].into_iter().flatten()
}
