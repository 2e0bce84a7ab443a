//! The task's contract: what workers may propose, and when a person is asked.
//!
//! `_handoff/TASK_CONTRACT.json` holds much that is not the gate's business. The gate reads two objects of it, and
//! refuses fields in them that it does not know, and objects whose name is nearly one of theirs: a misspelt limit must
//! not be no limit.

use serde::{Deserialize, Serialize};

use crate::{blob, confine::Folder, error::Error, path::WorkspacePath, registry::Operation};

/// What the gate reads of a contract; a contract that says nothing means these defaults.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Contract {
    /// What may be proposed.
    #[serde(default)]
    pub constraints: Constraints,
    /// How the gate judges.
    #[serde(default)]
    pub draft_gate: Rules,
}

/// What may be proposed.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Constraints {
    /// Files and folders that may be edited; `*` stands for anything within a name, `**` for any folders. Empty: all.
    pub allowed_paths: Vec<String>,
    /// Files and folders that may not, even where they are allowed.
    pub forbidden_paths: Vec<String>,
    /// Which operations may be proposed.
    pub allowed_operations: Vec<Operation>,
    /// Whether deletions may be proposed at all.
    pub delete_allowed: bool,
    /// More changed lines (added and removed) go to a person.
    pub max_diff_lines: u32,
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

/// How the gate judges.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rules {
    /// A greater share of removed lines goes to a person.
    pub max_deletion_ratio: f64,
    /// Longer drafts are refused.
    pub max_draft_bytes: u64,
    /// A change set of more files goes to a person.
    pub max_files: usize,
    /// What happens to a draft whose original was changed meanwhile.
    pub on_conflict: OnConflict,
    /// Which change sets a person sees before they are applied.
    pub preview: Preview,
    /// How long content of decided drafts is kept.
    pub retention_days: u32,
    /// Commands that have to succeed on the changed files.
    pub checks: Vec<Check>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            max_deletion_ratio: 0.5,
            max_draft_bytes: 1 << 20,
            max_files: 20,
            on_conflict: OnConflict::Escalate,
            preview: Preview::Escalated,
            retention_days: 30,
            checks: vec![],
        }
    }
}

/// What happens to a draft whose original was changed since it was requested.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnConflict {
    /// A person decides, on the three-way merge where that is clean.
    Escalate,
    /// A clean merge is judged as any other draft; a person decides on others.
    Merge,
    /// The draft is rejected.
    Reject,
}

/// Which change sets a person sees before they are applied.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preview {
    /// None: what would be escalated is rejected.
    Never,
    /// Those that the gate escalates.
    Escalated,
    /// All that are not rejected.
    Always,
}

/// A command that has to succeed on the changed files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// Its name in findings.
    pub name: String,
    /// The program.
    pub program: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// How many seconds it may take; one that takes longer goes to a person.
    #[serde(default = "usual_timeout")]
    pub timeout_s: u32,
}

fn usual_timeout() -> u32 {
    300
}

const FILE: &str = "TASK_CONTRACT.json";

/// The objects of a contract that are the gate's.
const OBJECTS: [&str; 2] = ["constraints", "draft_gate"];

impl Contract {
    pub(crate) fn load(handoff: &Folder) -> Result<Self, Error> {
        let Some(content) = handoff.read(FILE, 1 << 20)? else { return Ok(Self::default()) };
        Self::parse(&content.bytes)
    }

    /// Reads a contract.
    pub fn parse(json: &[u8]) -> Result<Self, Error> {
        let refused = |it: serde_json::Error| Error::Contract(it.to_string());
        let whole: serde_json::Map<String, serde_json::Value> =
            serde_json::from_slice(json).map_err(refused)?;
        for (key, meant) in whole.keys().flat_map(|key| OBJECTS.map(|it| (key, it))) {
            if key != meant && is_nearly(key, meant) {
                return Err(Error::Contract(format!("`{key}` looks like `{meant}` misspelt")));
            }
        }
        let contract: Self = serde_json::from_value(whole.into()).map_err(refused)?;
        let rules = &contract.draft_gate;
        if !(0.0..=1.0).contains(&rules.max_deletion_ratio) {
            return Err(Error::Contract("max_deletion_ratio is not between 0 and 1".to_owned()));
        }
        if rules.max_draft_bytes > blob::MOST {
            return Err(Error::Contract(format!("max_draft_bytes is over {}", blob::MOST)));
        }
        Ok(contract)
    }

    /// Fails where an operation on a file is not allowed.
    pub(crate) fn allow(&self, operation: Operation, path: &WorkspacePath) -> Result<(), Error> {
        let Constraints {
            allowed_paths, forbidden_paths, allowed_operations, delete_allowed, ..
        } = &self.constraints;
        let matches = |pattern: &String| is_match(pattern, path.as_str());
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
        let what_to_do = "leave it as it is, or ask a person to change _handoff/TASK_CONTRACT.json";
        Err(Error::NotAllowed { reason: format!("{reason}; {what_to_do}") })
    }
}

/// Whether two names are the same but for case, signs, and one letter that is wrong, missing or too much.
fn is_nearly(one: &str, other: &str) -> bool {
    let letters = |name: &str| -> Vec<char> {
        name.chars().filter(|it| it.is_alphanumeric()).flat_map(char::to_lowercase).collect()
    };
    let (one, other) = (letters(one), letters(other));
    let n_same_start = one.iter().zip(&other).take_while(|(one, other)| one == other).count();
    let ends = one.iter().rev().zip(other.iter().rev());
    let n_same_end = ends.take_while(|(one, other)| one == other).count();
    one.len().abs_diff(other.len()) <= 1
        && n_same_start + n_same_end + 1 >= one.len().max(other.len())
}

/// Whether a pattern covers a path: a folder covers all that is in it.
fn is_match(pattern: &str, path: &str) -> bool {
    let pattern: Vec<&str> = pattern.split('/').filter(|it| !it.is_empty() && *it != ".").collect();
    let path: Vec<&str> = path.split('/').collect();
    covers(&pattern, &path)
}

fn covers(pattern: &[&str], path: &[&str]) -> bool {
    match (pattern.split_first(), path.split_first()) {
        (None, _) => true,
        (Some((&"**", rest)), _) => (0..=path.len()).any(|it| covers(rest, &path[it..])),
        (Some(_), None) => false,
        (Some((first, pattern)), Some((name, path))) => names(first, name) && covers(pattern, path),
    }
}

/// Whether a pattern with stars fits a name: the first part at its start, the last at its end, others in between.
fn names(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(start) else { return false };
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return name.ends_with(part);
        }
        let Some(at) = name.find(part) else { return false };
        name = &name[at + part.len()..];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, path, expect) in [
            ("src", "src/a.py", true),
            ("src/", "src/a.py", true),
            ("src", "src-evil/a.py", false),
            ("src/*.py", "src/a.py", true),
            ("src/*.py", "src/b/a.py", false),
            ("src/**/*.py", "src/b/c/a.py", true),
            ("src/**/*.py", "src/a.py", true),
            ("**/*.lock", "a/Cargo.lock", true),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "aXc", false),
            ("*", "anything/at/all", true),
        ] {
            assert_eq!(is_match(pattern, path), expect, "{pattern} {path}");
        }
    }

    #[test]
    fn what_is_misspelt_is_refused() {
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
            assert!(matches!(Contract::parse(json.as_bytes()), Err(Error::Contract(_))), "{json}");
        }
        let contract = Contract::parse(
            br#"{"task_id": "x", "roles": {}, "draft": {}, "gate": 1, "constraints": {"max_diff_lines": 5}}"#,
        );
        assert_eq!(contract.unwrap().constraints.max_diff_lines, 5);
    }
}
