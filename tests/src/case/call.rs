//! The calls of a script.

use graph_core::Durability;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::{StopsSpec, Targets};

/// One call of a script. Exactly one of its first nine fields says which; the others say how.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// Runs with fresh input; null goes on.
    #[serde(default, deserialize_with = "present")]
    pub invoke: Option<Value>,
    /// Runs with an answer.
    #[serde(default, deserialize_with = "present")]
    pub resume: Option<Value>,
    /// Runs with answers, each beside the question it is for.
    pub resume_map: Option<Vec<(Value, Value)>>,
    /// Runs with a command.
    pub command: Option<InputCommand>,
    /// Edits the state.
    #[serde(default, deserialize_with = "present")]
    pub update_state: Option<Value>,
    /// Edits the state, superstep by superstep.
    pub bulk_update: Option<Vec<Vec<EditSpec>>>,
    /// Looks at the state.
    #[serde(default)]
    pub state: bool,
    /// Looks at the history.
    #[serde(default)]
    pub history: bool,
    /// Counts the checkpoints of each namespace.
    #[serde(default)]
    pub namespaces: bool,

    /// What an edit stands for.
    pub as_node: Option<String>,
    /// Whether to look into subgraphs.
    #[serde(default)]
    pub subgraphs: bool,
    /// The thread; null is none.
    #[serde(default = "usual_thread")]
    pub thread: Option<String>,
    /// How many steps a run may take.
    #[serde(default = "usual_limit")]
    pub recursion_limit: i64,
    /// When a run stores checkpoints.
    #[serde(default)]
    pub durability: DurabilitySpec,
    /// The stops of this run, in place of the compiled ones.
    pub interrupt_before: Option<StopsSpec>,
    /// The stops of this run, in place of the compiled ones.
    pub interrupt_after: Option<StopsSpec>,
    /// Which snapshot of the history to start from, newest 0.
    pub at: Option<usize>,
}

impl Call {
    /// Whether the call is a run.
    pub fn runs(&self) -> bool {
        self.invoke.is_some()
            || self.resume.is_some()
            || self.resume_map.is_some()
            || self.command.is_some()
    }
}

/// A command as input.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputCommand {
    /// What it writes.
    pub update: Option<Map<String, Value>>,
    /// Where it goes.
    #[serde(default)]
    pub goto: Targets,
    /// What it answers.
    #[serde(default, deserialize_with = "present")]
    pub resume: Option<Value>,
}

/// One edit of a superstep.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EditSpec {
    /// What it writes.
    pub values: Value,
    /// What it stands for.
    pub as_node: Option<String>,
}

/// When a run stores checkpoints.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the words of the format, explained there")]
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

/// Tells a null that is there from one that is not.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

fn usual_thread() -> Option<String> {
    Some("t".to_owned())
}

fn usual_limit() -> i64 {
    25
}
