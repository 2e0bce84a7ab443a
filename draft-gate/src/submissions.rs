//! The file `drafts/{task}.submission.json`, which lists the undecided submissions of a task for people and tools.
//!
//! Workers can write to this directory, so the gate never trusts the file.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    blob,
    confine::Durability,
    diff::{FileDiff, line_count},
    digest::Digest,
    error::Error,
    gate::{DRAFTS, Gate, LockedGate},
    records::{Change, ChangeSet},
};

#[derive(Debug, Default, Serialize, Deserialize)]
struct File {
    submissions: Vec<Value>,
}

/// Maximum size of a listed diff in bytes.
const MAX_DIFF_BYTES: usize = 64 << 10;

/// Maximum number of submissions that are listed for a task. The newest ones are kept.
const MAX_SUBMISSIONS: usize = 50;

/// A draft compared with the original that was requested.
#[derive(Debug)]
pub(crate) struct SubmittedDiff {
    base: Option<Digest>,
    content: Option<Digest>,
    original_lines: usize,
    draft_lines: usize,
    pub(crate) diff: FileDiff,
}

impl SubmittedDiff {
    pub(crate) fn new(
        gate: &Gate,
        base: Option<Digest>,
        content: Option<&str>,
    ) -> Result<Self, Error> {
        let original = base.map(|it| blob::get(&gate.blobs, it)).transpose()?.unwrap_or_default();
        let original = String::from_utf8_lossy(&original);
        gate.root.notify("compare two texts", "");
        let draft = content.unwrap_or_default();
        Ok(Self {
            base,
            content: content.map(|it| Digest::of(it.as_bytes())),
            original_lines: line_count(&original),
            draft_lines: line_count(draft),
            diff: FileDiff::new(&original, draft),
        })
    }

    /// Returns whether this diff compares the contents of `change`.
    pub(crate) fn is_of(&self, change: &Change) -> bool {
        (self.base, self.content) == (change.base, change.content)
    }
}

impl LockedGate<'_> {
    pub(crate) fn add_submission(&self, set: &ChangeSet, change: &Change, diff: &SubmittedDiff) {
        let unified = &diff.diff.unified;
        let submission = serde_json::json!({
            "task_id": set.task,
            "draft_path": format!("{DRAFTS}/{}", change.draft),
            "original_path": change.path,
            "operation": change.operation,
            "change_summary": change.summary,
            "submitted_at": chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Secs, true),
            "original_hash": change.base,
            "draft_hash": change.content,
            "original_lines": diff.original_lines,
            "draft_lines": diff.draft_lines,
            "set": set.id,
            "diff": &unified[..unified.floor_char_boundary(MAX_DIFF_BYTES)],
        });
        self.rewrite(&set.task, |submissions| submissions.push(submission));
    }

    pub(crate) fn remove_submissions(&self, task: &str, set: &str) {
        self.rewrite(task, |submissions| submissions.retain(|it| it["set"] != set));
    }

    /// Changes the list. Errors are ignored, because a worker may have replaced the file with a directory, and the list
    /// is only informational.
    fn rewrite(&self, task: &str, change: impl FnOnce(&mut Vec<Value>)) {
        let _ = self.try_rewrite(task, change);
    }

    fn try_rewrite(&self, task: &str, change: impl FnOnce(&mut Vec<Value>)) -> Result<(), Error> {
        let drafts = self.drafts()?;
        let name = format!("{task}.submission.json");
        // Anything that a worker has put in place of the file is replaced.
        let known = drafts.read(&name, 8 << 20).ok().flatten();
        let mut file: File =
            known.and_then(|it| serde_json::from_slice(&it.bytes).ok()).unwrap_or_default();
        change(&mut file.submissions);
        if file.submissions.is_empty() {
            return drafts.remove(&name);
        }
        let n_excess = file.submissions.len().saturating_sub(MAX_SUBMISSIONS);
        file.submissions.drain(..n_excess);
        let bytes = serde_json::to_vec_pretty(&file).expect("plain data");
        drafts.replace(&name, bytes, Durability::ProcessCrash)
    }
}
