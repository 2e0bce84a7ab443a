//! The checkpoint that a request refers to.

use graph_core::checkpoint::CheckpointId;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::langgraph::{
    error::{ApiError, ApiResult},
    id::{parse_checkpoint, parse_namespace},
};

/// A reference to a checkpoint.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::langgraph) struct CheckpointRef {
    #[serde(default)]
    thread_id: Option<String>,
    #[serde(default)]
    checkpoint_ns: Option<String>,
    #[serde(default)]
    checkpoint_id: Option<String>,
    #[serde(default)]
    checkpoint_map: Option<Map<String, Value>>,
}

impl CheckpointRef {
    /// Creates a reference to a checkpoint of the top-level graph.
    pub(in crate::langgraph) fn of_id(checkpoint_id: Option<String>) -> Self {
        Self { checkpoint_id, ..Self::default() }
    }

    /// Returns the id of the checkpoint, if the reference contains one.
    pub(in crate::langgraph) fn id(&self) -> ApiResult<Option<CheckpointId>> {
        self.checkpoint_id.as_deref().map(parse_checkpoint).transpose()
    }

    /// Returns the namespace of the checkpoint in the engine's form. It is empty for the top-level graph.
    pub(in crate::langgraph) fn namespace(&self) -> String {
        self.checkpoint_ns.as_deref().map(parse_namespace).unwrap_or_default()
    }

    /// Returns the id of a checkpoint of the top-level graph. Fails if the reference names a subgraph.
    pub(in crate::langgraph) fn top_level_id(&self) -> ApiResult<Option<CheckpointId>> {
        if self.namespace().is_empty() {
            return self.id();
        }
        let detail = "a checkpoint of a subgraph is not supported here; use a checkpoint with an empty \
                      `checkpoint_ns`";
        Err(ApiError::invalid(detail))
    }
}
