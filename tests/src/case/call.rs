//! The calls in a script.

use graph_core::Durability;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::{stops::StopsSpec, targets::Targets};

/// One call in a script. Exactly one of the first nine fields is set and selects the operation. The other fields
/// are options.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// Runs the graph with this input. Null resumes the thread.
    #[serde(default, deserialize_with = "explicit_null")]
    pub invoke: Option<Value>,
    /// Runs the graph with an answer to the pending interrupt.
    #[serde(default, deserialize_with = "explicit_null")]
    pub resume: Option<Value>,
    /// Runs the graph with answers. Each pair consists of the value of an interrupt and the answer to it.
    pub resume_map: Option<Vec<(Value, Value)>>,
    /// Runs the graph with a command as input.
    pub command: Option<InputCommand>,
    #[serde(default, deserialize_with = "explicit_null")]
    pub update_state: Option<Value>,
    /// Updates the state in several supersteps.
    pub bulk_update: Option<Vec<Vec<EditSpec>>>,
    #[serde(default)]
    pub state: bool,
    #[serde(default)]
    pub history: bool,
    /// Whether to count the checkpoints of each namespace.
    #[serde(default)]
    pub namespaces: bool,

    /// Node to which the update is attributed.
    pub as_node: Option<String>,
    /// Whether to include the states of subgraphs.
    #[serde(default)]
    pub subgraphs: bool,
    /// Name of the thread. Null means that the call uses no thread.
    #[serde(default = "default_thread")]
    pub thread: Option<String>,
    #[serde(default = "default_limit")]
    pub recursion_limit: i64,
    /// Determines when the run stores checkpoints.
    #[serde(default)]
    pub durability: Durability,
    /// Nodes to stop before. They replace the nodes that were set at compile time.
    pub interrupt_before: Option<StopsSpec>,
    /// Nodes to stop after. They replace the nodes that were set at compile time.
    pub interrupt_after: Option<StopsSpec>,
    /// Index of the snapshot in the history from which to start. Index 0 is the newest snapshot.
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

/// A command that is used as input.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputCommand {
    pub update: Option<Map<String, Value>>,
    #[serde(default)]
    pub goto: Targets,
    /// Answer to the pending interrupt.
    #[serde(default, deserialize_with = "explicit_null")]
    pub resume: Option<Value>,
}

/// One update in a superstep.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EditSpec {
    pub values: Value,
    /// Node to which the update is attributed.
    pub as_node: Option<String>,
}

/// Deserializes a field so that an explicit null differs from a missing key.
fn explicit_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

fn default_thread() -> Option<String> {
    Some("t".to_owned())
}

fn default_limit() -> i64 {
    25
}
