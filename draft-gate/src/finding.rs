//! The gate's findings about a change set.

use serde::{Deserialize, Serialize};

use crate::path::WorkspacePath;

/// An observation about a change set. Depending on its severity, it is only informational, escalates the set or rejects
/// it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    pub rule: String,
    pub severity: Severity,
    /// File that the finding concerns; `None` if it concerns the whole set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<WorkspacePath>,
    /// Line number in the new text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Explanation of the finding. It never contains a detected secret.
    pub text: String,
}

/// Consequence of a finding. The most severe finding in a set determines the decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Note,
    Escalate,
    Reject,
}

impl Finding {
    pub(crate) fn new(rule: &str, severity: Severity, text: impl Into<String>) -> Self {
        Self { rule: rule.to_owned(), severity, path: None, line: None, text: text.into() }
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

/// Returns the distinct rule ids of the findings. The log contains these ids instead of the findings, which bounds the
/// length of a log line.
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
