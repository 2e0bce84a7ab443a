//! Types of the models' answers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A program written by the generator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GeneratedCode {
    /// The complete program.
    pub code: String,
    /// Required packages other than the standard library, by the names used to install them.
    #[serde(default)]
    pub dependencies: Vec<String>,
    /// Why the program is written this way.
    #[serde(default)]
    pub reasoning: String,
    /// The generator's confidence that the program works, from 0 to 1.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub confidence: f64,
}

/// The critic's explanation of why a program failed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Critique {
    /// Why the program failed.
    pub diagnosis: String,
    /// How to fix it.
    #[serde(default)]
    pub fix_suggestion: String,
    /// Whether another attempt may succeed.
    #[serde(default = "yes")]
    pub should_retry: bool,
    /// The critic's confidence in this diagnosis, from 0 to 1.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub confidence: f64,
}

fn yes() -> bool {
    true
}
