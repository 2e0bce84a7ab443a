//! The task contract: which changes workers may propose, and which changes are escalated to a person.
//!
//! `_handoff/TASK_CONTRACT.json` has many fields that other programs use. The gate reads only two of its objects. It
//! rejects unknown fields in these objects, and objects with similar names, because a misspelt limit must not mean that
//! there is no limit.

use serde::{Deserialize, Serialize};

use crate::{
    blob, confine::Dir, error::Error, path::WorkspacePath, pattern::matches_path,
    records::Operation,
};

/// The part of a contract that the gate reads. Missing fields have the defaults below.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(crate) struct Contract {
    #[serde(default)]
    pub(crate) constraints: Constraints,
    #[serde(default)]
    pub(crate) draft_gate: Rules,
}

/// Restrictions on the changes that workers may propose.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Constraints {
    /// Files and directories that may be changed. `*` matches any text within a name, and `**` matches any number of
    /// directories. An empty list allows all files.
    pub(crate) allowed_paths: Vec<String>,
    /// Files and directories that may not be changed, even if `allowed_paths` allows them.
    pub(crate) forbidden_paths: Vec<String>,
    pub(crate) allowed_operations: Vec<Operation>,
    pub(crate) delete_allowed: bool,
    /// Maximum number of added and removed lines in a change set; larger sets are escalated.
    pub(crate) max_diff_lines: u32,
}

impl Default for Constraints {
    fn default() -> Self {
        Self {
            allowed_paths: vec![],
            forbidden_paths: vec![],
            allowed_operations: vec![Operation::Edit, Operation::Create, Operation::Delete],
            delete_allowed: true,
            max_diff_lines: 500,
        }
    }
}

/// Rules by which change sets are judged.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Rules {
    /// Maximum share of a file's lines that may be removed, from 0 to 1. A change set that removes a larger share of a
    /// file is escalated.
    pub(crate) max_deletion_ratio: f64,
    pub(crate) max_draft_bytes: u64,
    /// Maximum number of files per change set; larger sets are escalated.
    pub(crate) max_files: usize,
    pub(crate) on_conflict: OnConflict,
    pub(crate) preview: Preview,
    /// Files that tools execute or that configure tools, but that need no review, as patterns like those in
    /// `allowed_paths`.
    pub(crate) allowed_tool_files: Vec<String>,
    /// Number of days for which the content of decided drafts is kept.
    pub(crate) retention_days: u32,
    pub(crate) checks: Vec<Check>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            max_deletion_ratio: 0.5,
            max_draft_bytes: 1 << 20,
            max_files: 20,
            on_conflict: OnConflict::Escalate,
            preview: Preview::Escalated,
            allowed_tool_files: vec![],
            retention_days: 30,
            checks: vec![],
        }
    }
}

/// How to treat a draft if its original file was changed after the draft was requested.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OnConflict {
    /// Escalate the draft. The reviewer sees the three-way merge if it is clean.
    Escalate,
    /// If the three-way merge is clean, judge it like any other draft; otherwise escalate the draft.
    Merge,
    Reject,
}

/// Which change sets a person must review before they are applied.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Preview {
    /// No sets are reviewed. Sets that would be escalated are rejected instead.
    Never,
    /// Only sets that the gate escalates are reviewed.
    Escalated,
    /// All sets that are not rejected are reviewed.
    Always,
}

/// A command that must succeed on the changed files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// Name shown in findings.
    pub name: String,
    pub program: String,
    #[serde(default)]
    pub args: Vec<String>,
    /// Time limit in seconds. If the check exceeds it, the change set is escalated.
    #[serde(default = "default_timeout")]
    pub timeout_s: u32,
}

fn default_timeout() -> u32 {
    300
}

const FILE: &str = "TASK_CONTRACT.json";

/// Names of the objects in a contract that the gate reads.
const OBJECTS: [&str; 2] = ["constraints", "draft_gate"];

impl Contract {
    pub(crate) fn load(handoff: &Dir) -> Result<Self, Error> {
        let Some(content) = handoff.read(FILE, 1 << 20)? else { return Ok(Self::default()) };
        Self::parse(&content.bytes)
    }

    pub(crate) fn parse(json: &[u8]) -> Result<Self, Error> {
        let invalid = |it: serde_json::Error| Error::InvalidContract(it.to_string());
        let object: serde_json::Map<String, serde_json::Value> =
            serde_json::from_slice(json).map_err(invalid)?;
        for (key, known) in object.keys().flat_map(|key| OBJECTS.map(|it| (key, it))) {
            if key != known && is_similar(key, known) {
                return Err(Error::InvalidContract(format!(
                    "`{key}` looks like a misspelling of `{known}`"
                )));
            }
        }
        let contract: Self = serde_json::from_value(object.into()).map_err(invalid)?;
        let rules = &contract.draft_gate;
        if !(0.0..=1.0).contains(&rules.max_deletion_ratio) {
            return Err(Error::InvalidContract(format!(
                "max_deletion_ratio is {}, but must be between 0 and 1",
                rules.max_deletion_ratio
            )));
        }
        if rules.max_draft_bytes > blob::MAX_BYTES {
            return Err(Error::InvalidContract(format!(
                "max_draft_bytes is {}, but must not exceed {}",
                rules.max_draft_bytes,
                blob::MAX_BYTES
            )));
        }
        Ok(contract)
    }

    pub(crate) fn allow(&self, operation: Operation, path: &WorkspacePath) -> Result<(), Error> {
        let Constraints {
            allowed_paths, forbidden_paths, allowed_operations, delete_allowed, ..
        } = &self.constraints;
        let matches = |pattern: &String| matches_path(pattern, path.as_str());
        let reason = if !allowed_operations.contains(&operation) {
            format!("operation `{operation}` is not among allowed_operations")
        } else if operation == Operation::Delete && !delete_allowed {
            "delete_allowed is false".to_owned()
        } else if forbidden_paths.iter().any(matches) {
            format!("`{path}` is among forbidden_paths")
        } else if !allowed_paths.is_empty() && !allowed_paths.iter().any(matches) {
            format!("`{path}` is not among allowed_paths")
        } else {
            return Ok(());
        };
        let what_to_do =
            "leave the file unchanged, or ask a person to change _handoff/TASK_CONTRACT.json";
        Err(Error::NotAllowed { reason: format!("{reason}; {what_to_do}") })
    }
}

impl Rules {
    /// Returns whether a file that tools execute, or that configures tools, may be changed without a review.
    pub(crate) fn allows_tool_file(&self, path: &WorkspacePath) -> bool {
        self.allowed_tool_files.iter().any(|it| matches_path(it, path.as_str()))
    }
}

/// Returns whether two names are equal except for letter case, punctuation and at most one letter.
fn is_similar(one: &str, other: &str) -> bool {
    let letters = |name: &str| -> String {
        name.chars().filter(|it| it.is_alphanumeric()).flat_map(char::to_lowercase).collect()
    };
    strsim::levenshtein(&letters(one), &letters(other)) <= 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_and_invalid_settings_are_rejected() {
        for json in [
            r#"{"constraints": {"max_dif_lines": 5}}"#,
            r#"{"draft_gate": {"on_conflict": "shrug"}}"#,
            r#"{"draft_gate": {"max_deletion_ratio": 3}}"#,
            r#"{"draft_gate": {"max_draft_bytes": 99999999999}}"#,
            r#"{"draftgate": {"preview": "always"}}"#,
            r#"{"Draft-Gate": {"preview": "always"}}"#,
            r#"{"draft_gates": {}}"#,
            r#"{"constraint": {}}"#,
            r#"{"constrains": {}}"#,
            r#"{"constreints": {}}"#,
            "[",
        ] {
            assert!(
                matches!(Contract::parse(json.as_bytes()), Err(Error::InvalidContract(_))),
                "{json}"
            );
        }
        let contract = Contract::parse(
            br#"{"task_id": "x", "roles": {}, "draft": {}, "gate": 1, "constraints": {"max_diff_lines": 5}}"#,
        );
        assert_eq!(contract.unwrap().constraints.max_diff_lines, 5);
    }
}
