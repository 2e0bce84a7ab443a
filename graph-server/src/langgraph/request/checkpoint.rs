//! The checkpoint that a request refers to.

use graph_core::checkpoint::CheckpointId;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::langgraph::{
    error::ApiResult,
    id::{parse_checkpoint, parse_namespace},
    position::Position,
};

/// A reference to a checkpoint of a thread, or of one of its subgraphs.
///
/// Clients also send the checkpoints of the enclosing graphs in `checkpoint_map`. They are stored with each checkpoint
/// of a subgraph, so the request need not contain them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::langgraph) struct CheckpointRef {
    thread_id: Option<String>,
    checkpoint_ns: Option<String>,
    checkpoint_id: Option<String>,
    checkpoint_map: Option<Map<String, Value>>,
}

impl CheckpointRef {
    /// Creates a reference to a checkpoint of the top-level graph.
    pub(in crate::langgraph) fn of_id(checkpoint_id: Option<String>) -> Self {
        Self { checkpoint_id, ..Self::default() }
    }

    /// Returns the id of the checkpoint, if the reference contains one.
    pub(in crate::langgraph) fn id(&self) -> ApiResult<Option<CheckpointId>> {
        let namespace = self.checkpoint_ns.as_deref().unwrap_or_default();
        let mapped = self.checkpoint_map.as_ref().and_then(|it| it.get(namespace)?.as_str());
        self.checkpoint_id.as_deref().or(mapped).map(parse_checkpoint).transpose()
    }

    /// Returns the namespace of the checkpoint in the engine's form. It is empty for the top-level graph.
    pub(in crate::langgraph) fn namespace(&self) -> String {
        self.checkpoint_ns.as_deref().map(parse_namespace).unwrap_or_default()
    }

    /// Returns the graph and the checkpoint that the reference names.
    pub(in crate::langgraph) fn position(&self) -> ApiResult<Position> {
        Ok(Position { namespace: self.namespace(), checkpoint: self.id()? })
    }
}
