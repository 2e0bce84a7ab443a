//! What the gate knows of drafts and change sets: the worker's own word is never needed.
//!
//! Each lies in a file of its own that goes when it is decided, so that work does not grow with the past.

use std::fmt;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    confine::{Dir, Durability},
    digest::Digest,
    error::{Error, escape_for_message},
    finding::Finding,
    path::WorkspacePath,
};

/// What a draft proposes to do with its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Change a file that is there.
    #[default]
    Edit,
    /// Make a file that is not there.
    Create,
    /// Remove a file. A person always decides on this.
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

/// A draft that a worker was given.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct DraftRecord {
    /// Its name in `drafts`.
    pub(crate) name: String,
    pub(crate) worker: String,
    pub(crate) task: String,
    pub(crate) path: WorkspacePath,
    pub(crate) operation: Operation,
    /// The original when it was requested; absent for a new file.
    pub(crate) base: Option<Digest>,
    pub(crate) requested_at: i64,
    /// The change set that it was submitted in.
    pub(crate) set: Option<String>,
}

/// Drafts that were submitted together, with their content.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ChangeSet {
    pub(crate) id: String,
    pub(crate) worker: String,
    pub(crate) task: String,
    pub(crate) state: SetState,
    pub(crate) changes: Vec<Change>,
    pub(crate) submitted_at: i64,
    /// What another look at the files would not find again.
    #[serde(default, rename = "found", skip_serializing_if = "Option::is_none")]
    pub(crate) recorded: Option<RecordedFindings>,
}

/// What project checks, or an attempt to apply a change set, came to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RecordedFindings {
    /// Stands for the change and the checks that it is about: for another one it says nothing.
    #[serde(rename = "about")]
    pub(crate) applies_to: Digest,
    pub(crate) findings: Vec<Finding>,
}

/// How far a change set is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SetState {
    /// More drafts are to come.
    #[serde(rename = "held")]
    Incomplete,
    /// Complete, and not judged.
    Ready,
    /// A person decides.
    Escalated,
}

/// One file of a change set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Change {
    pub(crate) draft: String,
    pub(crate) path: WorkspacePath,
    pub(crate) operation: Operation,
    pub(crate) base: Option<Digest>,
    /// What was submitted; absent for a deletion.
    pub(crate) content: Option<Digest>,
    /// How long that is.
    #[serde(default)]
    pub(crate) bytes: u64,
    pub(crate) summary: String,
}

/// Files of one kind, by name.
#[derive(Debug)]
pub(crate) struct RecordDir {
    pub(crate) dir: Dir,
}

const MAX_RECORD_BYTES: u64 = 8 << 20;

impl RecordDir {
    pub(crate) fn get<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Error> {
        let file = format!("{name}.json");
        // A name that a worker made up leads nowhere.
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

    /// As [`get`](Self::get), where a file that is damaged counts as none: it must not hide the others, and what is
    /// under way may be lost in a power cut.
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

    /// Moves something to another shelf, in one move: it is on the one or on the other, whatever happens.
    pub(crate) fn move_to(&self, name: &str, target: &Self) -> Result<(), Error> {
        self.dir.move_over(&format!("{name}.json"), &target.dir)
    }

    /// Removes something; a power cut may bring it back.
    pub(crate) fn remove(&self, name: &str) -> Result<(), Error> {
        self.dir.remove(&format!("{name}.json"))
    }

    /// The names of all that is there.
    pub(crate) fn names(&self) -> Result<Vec<String>, Error> {
        let names = self.dir.names()?;
        Ok(names.iter().filter_map(|it| it.strip_suffix(".json")).map(str::to_owned).collect())
    }
}
