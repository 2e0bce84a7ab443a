//! What goes into a worker's tools, and what comes out: the fields of the design document, and a few more.

use serde::{Deserialize, Serialize};

use crate::{error::Error, records::Operation};

/// Asks for a draft.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DraftRequest {
    /// Path of the file, from the workspace's root, such as `src/main.py`.
    pub source_path: String,
    /// The task that this is for: letters, digits, `_` and `-`.
    pub task_id: String,
    /// `edit` a file (the default), `create` a new one, or propose to `delete` one.
    #[serde(default)]
    pub operation: Operation,
    /// The same as operation `create`.
    #[serde(default)]
    pub create: bool,
    /// Start from your draft of this file that was rejected last, in place of the file itself.
    #[serde(default)]
    pub restore: bool,
}

impl DraftRequest {
    /// Asks for a draft of a file that is there.
    #[must_use]
    pub fn edit(source_path: &str, task_id: &str) -> Self {
        Self { source_path: source_path.to_owned(), task_id: task_id.to_owned(), ..Self::default() }
    }

    /// Asks for a draft of a new file.
    #[must_use]
    pub fn create(source_path: &str, task_id: &str) -> Self {
        Self { operation: Operation::Create, ..Self::edit(source_path, task_id) }
    }

    /// Asks to propose that a file is removed.
    #[must_use]
    pub fn delete(source_path: &str, task_id: &str) -> Self {
        Self { operation: Operation::Delete, ..Self::edit(source_path, task_id) }
    }

    /// What is asked for, by whichever of the two fields.
    pub(crate) fn operation(&self) -> Result<Operation, Error> {
        match (self.create, self.operation) {
            (false, operation) => Ok(operation),
            (true, Operation::Edit | Operation::Create) => Ok(Operation::Create),
            (true, Operation::Delete) => {
                let reason = "a file is either to be made or to be deleted; give one of both";
                Err(Error::NotAllowed { reason: reason.to_owned() })
            }
        }
    }
}

/// A draft, as its worker sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct Draft {
    /// Where the draft is: give this to the other tools.
    pub draft_path: String,
    /// SHA-256 of the file as it is now, or `absent` for a new one.
    pub original_hash: String,
    /// Lines of the draft.
    pub line_count: usize,
    /// The file that the draft is for.
    pub original_path: String,
    /// The task that it is for.
    pub task_id: String,
}

/// What a write came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct WriteReceipt {
    /// Whether the draft now holds the content.
    pub success: bool,
    /// SHA-256 of the draft.
    pub new_hash: String,
    /// Lines of the draft.
    pub line_count: usize,
}

/// What a draft holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct DraftContent {
    /// Its text.
    pub content: String,
    /// Its lines.
    pub line_count: usize,
}

/// Says that a draft is ready.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Submission {
    /// The draft, as ollama_request_draft gave it.
    pub draft_path: String,
    /// The file that it is for.
    pub original_path: String,
    /// The task that it is for.
    pub task_id: String,
    /// What changes, in a sentence.
    pub change_summary: String,
    /// More drafts of this task follow: all are judged and applied together, with the first that does not say so.
    #[serde(default)]
    pub more_to_come: bool,
}

impl Submission {
    /// Says that a requested draft is ready.
    #[must_use]
    pub fn of(draft: &Draft, change_summary: &str) -> Self {
        Self {
            draft_path: draft.draft_path.clone(),
            original_path: draft.original_path.clone(),
            task_id: draft.task_id.clone(),
            change_summary: change_summary.to_owned(),
            more_to_come: false,
        }
    }

    /// Lets this draft wait for others of its task.
    #[must_use]
    pub fn more_to_come(mut self) -> Self {
        self.more_to_come = true;
        self
    }
}

/// What a submission came to.
#[derive(Clone, Debug, PartialEq)]
pub struct SubmissionReceipt {
    /// The change set that the draft is part of.
    pub set: String,
    /// Whether the set is complete and can be judged.
    pub is_complete: bool,
    /// The message DRAFT_READY; none while the set waits for more drafts.
    pub message_id: Option<String>,
}
