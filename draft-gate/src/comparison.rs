//! Comparisons of file contents, which are the most expensive part of a judgement.
//!
//! They are made before the gate's lock is taken, so that a large draft of one worker does not block the others. While
//! the lock is held, the results are looked up by the digests of the contents. A comparison is repeated under the lock
//! only if a file was changed in between.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap},
    rc::Rc,
};

use crate::{
    blob,
    diff::{DiffPrecision, FileDiff, merge},
    digest::Digest,
    finding::Finding,
    gate::Gate,
    path::WorkspacePath,
    records::{Change, ChangeSet, Operation},
    scan::scan_within,
    work::Work,
};

/// A file's old and new content, compared.
#[derive(Debug)]
pub(crate) struct Comparison {
    pub(crate) diff: FileDiff,
    /// Findings in the added lines.
    pub(crate) findings: Vec<Finding>,
}

/// Content of a file with its digest; the digest is `None` if there is no file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Text {
    pub(crate) digest: Option<Digest>,
    pub(crate) text: String,
}

impl Text {
    pub(crate) fn new(bytes: Option<Vec<u8>>) -> Self {
        Self { digest: bytes.as_deref().map(Digest::of), text: text(bytes) }
    }
}

/// Finished comparisons and merges of one change set, by the digests of the contents.
#[derive(Debug, Default)]
pub(crate) struct Comparisons {
    comparisons: RefCell<BTreeMap<(WorkspacePath, [Option<Digest>; 2]), Rc<Comparison>>>,
    merges: RefCell<HashMap<[Option<Digest>; 3], Option<Rc<str>>>>,
    /// Work for scanning all files of the set.
    work: RefCell<Work>,
}

impl Comparisons {
    /// Compares the old and the new content of a file, unless that is already done.
    pub(crate) fn compare(
        &self,
        gate: &Gate,
        path: &WorkspacePath,
        old: &Text,
        new: &Text,
    ) -> Rc<Comparison> {
        let key = (path.clone(), [old.digest, new.digest]);
        if let Some(known) = self.comparisons.borrow().get(&key) {
            return known.clone();
        }
        gate.root.notify("compare two texts", path.as_str());
        let diff = FileDiff::new(&old.text, &new.text);
        let mut work = self.work.borrow_mut();
        let findings = match diff.precision {
            DiffPrecision::Coarse => {
                scan_within(path.as_str(), &diff.new_lines(&old.text), &mut work)
            }
            DiffPrecision::Exact | DiffPrecision::Omitted => {
                scan_within(path.as_str(), &diff.added, &mut work)
            }
        };
        let comparison = Rc::new(Comparison { diff, findings });
        self.comparisons.borrow_mut().insert(key, comparison.clone());
        comparison
    }

    /// Merges two changes of the same content, unless that is already done.
    pub(crate) fn merge(
        &self,
        gate: &Gate,
        path: &WorkspacePath,
        [base, ours, theirs]: [&Text; 3],
    ) -> Option<Rc<str>> {
        let key = [base.digest, ours.digest, theirs.digest];
        if let Some(known) = self.merges.borrow().get(&key) {
            return known.clone();
        }
        gate.root.notify("compare two texts", path.as_str());
        let merged: Option<Rc<str>> = merge(&base.text, &ours.text, &theirs.text).map(Rc::from);
        self.merges.borrow_mut().insert(key, merged.clone());
        merged
    }
}

impl Gate {
    /// Compares the files of a change set with its drafts, without the lock. Skips files that cannot be read, because
    /// the same comparison under the lock reports them.
    pub(crate) fn compare_in_advance(&self, set: &str, comparisons: &Comparisons) {
        if let Ok(Some(set)) = self.sets.get::<ChangeSet>(set) {
            for change in &set.changes {
                let _ = self.compare_change(change, comparisons);
            }
        }
    }

    fn compare_change(&self, change: &Change, comparisons: &Comparisons) -> Option<()> {
        let path = change.path.clone().ensure_unprotected().ok()?;
        let current = self.root.read(path.as_str(), blob::MAX_BYTES).ok()?;
        let current = Text::new(current.map(|it| it.bytes));
        let stored = |digest: Option<Digest>| -> Option<Text> {
            Some(Text::new(digest.map(|it| blob::get(&self.blobs, it)).transpose().ok()?))
        };
        let mut new = stored(change.content)?;
        if current.digest != change.base && change.operation == Operation::Edit {
            let base = stored(change.base)?;
            if let Some(merged) = comparisons.merge(self, &path, [&base, &current, &new]) {
                new = Text::new(Some(merged.as_bytes().to_vec()));
            }
        }
        comparisons.compare(self, &path, &current, &new);
        Some(())
    }
}

fn text(bytes: Option<Vec<u8>>) -> String {
    bytes.map(|it| String::from_utf8_lossy(&it).into_owned()).unwrap_or_default()
}
