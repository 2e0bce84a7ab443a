//! The gate's own records of drafts and change sets. The gate relies on them and not on what workers claim.
//!
//! Each record is a separate file that is removed when its set is decided, so the cost of an operation does not grow
//! with the history.

use std::fmt;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    confine::{Dir, Durability},
    digest::Digest,
    error::Error,
    escape::escape_for_message,
    finding::Finding,
    path::WorkspacePath,
};

/// Operation that a draft proposes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Change an existing file.
    #[default]
    Edit,
    /// Create a new file.
    Create,
    /// Delete a file. Always escalated to a person.
    Delete,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Edit => "edit",
            Self::Create => "create",
            Self::Delete => "delete",
        })
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct DraftRecord {
    /// File name of the draft in `drafts`.
    pub(crate) name: String,
    pub(crate) worker: String,
    pub(crate) task: String,
    pub(crate) path: WorkspacePath,
    pub(crate) operation: Operation,
    /// Digest of the original when the draft was requested; `None` for a new file.
    pub(crate) base: Option<Digest>,
    pub(crate) requested_at: i64,
    /// Id of the change set in which the draft was submitted; `None` if it is not submitted yet.
    pub(crate) set: Option<String>,
}

/// Drafts that are judged and applied together.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ChangeSet {
    pub(crate) id: String,
    pub(crate) worker: String,
    pub(crate) task: String,
    pub(crate) state: SetState,
    pub(crate) changes: Vec<Change>,
    pub(crate) submitted_at: i64,
    /// Findings that cannot be computed again from the files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) recorded: Option<RecordedFindings>,
}

/// Findings of project checks or of a failed attempt to apply a change set.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RecordedFindings {
    /// Digest of the state to which the findings apply. They are ignored for any other state.
    pub(crate) applies_to: Digest,
    pub(crate) findings: Vec<Finding>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SetState {
    Incomplete,
    Ready,
    Escalated,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Change {
    pub(crate) draft: String,
    pub(crate) path: WorkspacePath,
    pub(crate) operation: Operation,
    pub(crate) base: Option<Digest>,
    /// Digest of the submitted content; `None` for a deletion.
    pub(crate) content: Option<Digest>,
    #[serde(default)]
    pub(crate) bytes: u64,
    pub(crate) summary: String,
}

/// A directory of JSON records of one kind. Each record is a file.
#[derive(Debug)]
pub(crate) struct RecordDir {
    pub(crate) dir: Dir,
}

const MAX_RECORD_BYTES: u64 = 8 << 20;

impl RecordDir {
    pub(crate) fn get<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Error> {
        let file = format!("{name}.json");
        // Treat a record as missing if its name contains a slash or is too long. Workers can invent names, and these
        // must not become paths.
        if file.contains('/') || file.len() > 255 {
            return Ok(None);
        }
        let Some(content) = self.dir.read(&file, MAX_RECORD_BYTES)? else { return Ok(None) };
        let damaged = |error: serde_json::Error| Error::Corrupt {
            file: escape_for_message(&file),
            fault: error.to_string(),
        };
        serde_json::from_slice(&content.bytes).map(Some).map_err(damaged)
    }

    /// Does the same as [`get`](Self::get), but returns `None` for a corrupt record, so that one corrupt record does
    /// not hide the others. A power failure can corrupt records that were not synced.
    pub(crate) fn readable<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Error> {
        match self.get(name) {
            Err(Error::Corrupt { .. }) => Ok(None),
            other => other,
        }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.dir.has(&format!("{name}.json"))
    }

    pub(crate) fn put<T: Serialize>(
        &self,
        name: &str,
        value: &T,
        keep: Durability,
    ) -> Result<(), Error> {
        let bytes = serde_json::to_vec(value).expect("plain data");
        self.dir.replace(&format!("{name}.json"), bytes, keep)
    }

    pub(crate) fn move_to(&self, name: &str, target: &Self) -> Result<(), Error> {
        self.dir.move_over(&format!("{name}.json"), &target.dir)
    }

    /// Removes a record. The removal is not synced, so a power failure may restore the record.
    pub(crate) fn remove(&self, name: &str) -> Result<(), Error> {
        self.dir.remove(&format!("{name}.json"))
    }

    pub(crate) fn names(&self) -> Result<Vec<String>, Error> {
        let names = self.dir.names()?;
        Ok(names.iter().filter_map(|it| it.strip_suffix(".json")).map(str::to_owned).collect())
    }
}
