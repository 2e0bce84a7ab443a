//! Parameters and results of the worker's tools.

use serde::{Deserialize, Serialize};

use crate::{error::Error, records::Operation};

/// Request for a draft.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DraftRequest {
    /// Path of the file relative to the workspace root, such as `src/main.py`.
    pub source_path: String,
    /// Id of the task: letters, digits, `_` and `-`.
    pub task_id: String,
    /// `edit` an existing file (default), `create` a new one, or propose to `delete` one.
    #[serde(default)]
    pub operation: Operation,
    /// Same as operation `create`.
    #[serde(default)]
    pub create: bool,
    /// Start from your last rejected draft of this file instead of the file itself.
    #[serde(default)]
    pub restore: bool,
}

impl DraftRequest {
    /// Creates a request for a draft of an existing file.
    pub fn edit(source_path: &str, task_id: &str) -> Self {
        Self { source_path: source_path.to_owned(), task_id: task_id.to_owned(), ..Self::default() }
    }

    /// Creates a request for a draft of a new file.
    pub fn create(source_path: &str, task_id: &str) -> Self {
        Self { operation: Operation::Create, ..Self::edit(source_path, task_id) }
    }

    /// Creates a request to propose the deletion of a file.
    pub fn delete(source_path: &str, task_id: &str) -> Self {
        Self { operation: Operation::Delete, ..Self::edit(source_path, task_id) }
    }

    /// Returns the requested operation, which the field `operation` or the field `create` can specify.
    pub(crate) fn operation(&self) -> Result<Operation, Error> {
        match (self.create, self.operation) {
            (false, operation) => Ok(operation),
            (true, Operation::Edit | Operation::Create) => Ok(Operation::Create),
            (true, Operation::Delete) => {
                let reason =
                    "`create` cannot be combined with operation `delete`; omit one of them";
                Err(Error::NotAllowed { reason: reason.to_owned() })
            }
        }
    }
}

/// A draft as its worker sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct Draft {
    /// Path of the draft, for the other tools.
    pub draft_path: String,
    /// SHA-256 of the current file, or `absent` for a new one.
    pub original_hash: String,
    /// Number of lines of the draft.
    pub line_count: usize,
    /// Path of the original file.
    pub original_path: String,
    /// Id of the task.
    pub task_id: String,
}

/// Result of writing a draft.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct WriteReceipt {
    /// Whether the draft was written.
    pub success: bool,
    /// SHA-256 of the draft.
    pub new_hash: String,
    /// Number of lines of the draft.
    pub line_count: usize,
}

/// Content of a draft.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct DraftContent {
    /// Text of the draft.
    pub content: String,
    /// Number of lines.
    pub line_count: usize,
}

/// Submission of a draft.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Submission {
    /// Path of the draft as returned by ollama_request_draft.
    pub draft_path: String,
    /// Path of the original file.
    pub original_path: String,
    /// Id of the task.
    pub task_id: String,
    /// Summary of the change in one sentence.
    pub change_summary: String,
    /// More drafts of this task follow. They are all judged and applied together, with the first draft that does not
    /// set this field.
    #[serde(default)]
    pub more_to_come: bool,
}

impl Submission {
    /// Creates a submission of a draft.
    pub fn of(draft: &Draft, change_summary: &str) -> Self {
        Self {
            draft_path: draft.draft_path.clone(),
            original_path: draft.original_path.clone(),
            task_id: draft.task_id.clone(),
            change_summary: change_summary.to_owned(),
            more_to_come: false,
        }
    }

    /// Announces that further drafts of the same change set will follow.
    pub fn more_to_come(mut self) -> Self {
        self.more_to_come = true;
        self
    }
}

/// Result of a submission.
#[derive(Clone, Debug, PartialEq)]
pub struct SubmissionReceipt {
    /// Id of the change set.
    pub set: String,
    /// Whether the set is complete and can be judged.
    pub is_complete: bool,
    /// Id of the message DRAFT_READY; `None` while the set awaits more drafts.
    pub message_id: Option<String>,
}
