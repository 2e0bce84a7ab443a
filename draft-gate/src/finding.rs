//! What the gate found in a change set.

use serde::{Deserialize, Serialize};

use crate::path::WorkspacePath;

/// Something in a change set that speaks against applying it as it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Which rule found it.
    pub rule: String,
    /// What follows from it.
    pub weight: Weight,
    /// In which file; none where it is about the whole set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<WorkspacePath>,
    /// In which line of the new text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// For who reads it. A secret that was found is not in here.
    pub text: String,
}

/// What follows from a finding; the greatest of all decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Weight {
    /// Nothing; it is good to know.
    Note,
    /// A person decides.
    Escalate,
    /// The set is rejected.
    Reject,
}

impl Finding {
    pub(crate) fn new(rule: &str, weight: Weight, text: impl Into<String>) -> Self {
        Self { rule: rule.to_owned(), weight, path: None, line: None, text: text.into() }
    }

    pub(crate) fn in_file(mut self, path: &WorkspacePath) -> Self {
        self.path = Some(path.clone());
        self
    }

    pub(crate) fn at_line(mut self, line: u32) -> Self {
        self.line = Some(line);
        self
    }
}

/// The rules that found something, each once: a line of the log does not grow with what a worker repeats.
pub(crate) fn rules_of(findings: &[Finding]) -> Vec<&str> {
    let mut rules: Vec<&str> = findings.iter().map(|it| it.rule.as_str()).collect();
    rules.sort_unstable();
    rules.dedup();
    rules
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(path) = &self.path {
            write!(f, "{path}")?;
            if let Some(line) = self.line {
                write!(f, ":{line}")?;
            }
            f.write_str(": ")?;
        }
        write!(f, "{} [{}]", self.text, self.rule)
    }
}
