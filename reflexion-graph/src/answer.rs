//! What models answer with, as types.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A program, as the generator writes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GeneratedCode {
    /// The whole program.
    pub code: String,
    /// Packages that it needs besides the standard library, by the names they are installed by.
    #[serde(default)]
    pub dependencies: Vec<String>,
    /// Why it is written so.
    #[serde(default)]
    pub reasoning: String,
    /// How sure its author is that it works, from 0 to 1.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub confidence: f64,
}

/// What is wrong with a program that failed, as the critic sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Critique {
    /// Why it failed.
    pub diagnosis: String,
    /// What to do instead.
    #[serde(default)]
    pub fix_suggestion: String,
    /// Whether another attempt may succeed.
    #[serde(default = "yes")]
    pub should_retry: bool,
    /// How sure the critic is, from 0 to 1.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub confidence: f64,
}

fn yes() -> bool {
    true
}
