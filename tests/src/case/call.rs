//! Calls of a script.

use graph_core::Durability;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::{StopsSpec, Targets};

/// One call of a script. Exactly one of the first nine fields selects the operation; the others are options.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// Runs with this input; null resumes the thread.
    #[serde(default, deserialize_with = "explicit_null")]
    pub invoke: Option<Value>,
    /// Runs with an answer to the pending interrupt.
    #[serde(default, deserialize_with = "explicit_null")]
    pub resume: Option<Value>,
    /// Runs with pairs of interrupt value and answer.
    pub resume_map: Option<Vec<(Value, Value)>>,
    /// Runs with a command as input.
    pub command: Option<InputCommand>,
    /// Updates the state.
    #[serde(default, deserialize_with = "explicit_null")]
    pub update_state: Option<Value>,
    /// Updates the state in several supersteps.
    pub bulk_update: Option<Vec<Vec<EditSpec>>>,
    /// Reads the state.
    #[serde(default)]
    pub state: bool,
    /// Reads the history.
    #[serde(default)]
    pub history: bool,
    /// Counts the checkpoints of each namespace.
    #[serde(default)]
    pub namespaces: bool,

    /// Node that the update is attributed to.
    pub as_node: Option<String>,
    /// Whether to include the states of subgraphs.
    #[serde(default)]
    pub subgraphs: bool,
    /// Name of the thread; null: no thread.
    #[serde(default = "default_thread")]
    pub thread: Option<String>,
    /// Maximum number of steps.
    #[serde(default = "default_limit")]
    pub recursion_limit: i64,
    /// When the run stores checkpoints.
    #[serde(default)]
    pub durability: DurabilitySpec,
    /// Nodes to stop before, instead of those set at compile time.
    pub interrupt_before: Option<StopsSpec>,
    /// Nodes to stop after, instead of those set at compile time.
    pub interrupt_after: Option<StopsSpec>,
    /// Index of the snapshot in the history to start from; 0 is the newest.
    pub at: Option<usize>,
}

impl Call {
    /// Returns whether the call runs the graph.
    pub fn runs(&self) -> bool {
        self.invoke.is_some()
            || self.resume.is_some()
            || self.resume_map.is_some()
            || self.command.is_some()
    }
}

/// A command used as input.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputCommand {
    /// Fields to write.
    pub update: Option<Map<String, Value>>,
    /// Targets to go to.
    #[serde(default)]
    pub goto: Targets,
    /// Answer to the pending interrupt.
    #[serde(default, deserialize_with = "explicit_null")]
    pub resume: Option<Value>,
}

/// One update of a superstep.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EditSpec {
    /// Fields to write.
    pub values: Value,
    /// Node that the update is attributed to.
    pub as_node: Option<String>,
}

/// When a run stores checkpoints.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "documented in FORMAT.md")]
pub enum DurabilitySpec {
    Sync,
    #[default]
    Async,
    Exit,
}

impl From<DurabilitySpec> for Durability {
    fn from(durability: DurabilitySpec) -> Self {
        match durability {
            DurabilitySpec::Sync => Self::Sync,
            DurabilitySpec::Async => Self::Async,
            DurabilitySpec::Exit => Self::Exit,
        }
    }
}

/// Distinguishes an explicit null from a missing key.
fn explicit_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

fn default_thread() -> Option<String> {
    Some("t".to_owned())
}

fn default_limit() -> i64 {
    25
}
