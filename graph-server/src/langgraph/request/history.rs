//! Requests for the history of a thread.

use graph_core::checkpoint::CheckpointId;
use serde::Deserialize;
use serde_json::Value;

use super::{body::or_default, checkpoint::CheckpointRef, config::Metadata};
use crate::langgraph::{
    error::{ApiError, ApiResult},
    id::parse_checkpoint,
};

/// A request for the history of a thread.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::langgraph) struct HistoryRequest {
    pub(in crate::langgraph) limit: Option<usize>,
    pub(in crate::langgraph) before: Option<Value>,
    #[serde(default, deserialize_with = "or_default")]
    pub(in crate::langgraph) metadata: Metadata,
    #[serde(default, deserialize_with = "or_default")]
    pub(in crate::langgraph) checkpoint: CheckpointRef,
    #[serde(default, deserialize_with = "or_default")]
    pub(in crate::langgraph) select: Vec<String>,
}

impl HistoryRequest {
    /// Returns the checkpoint that limits the history: only older checkpoints are listed. Clients send its id, a
    /// reference to it, or a configuration that contains the reference.
    pub(in crate::langgraph) fn before(&self) -> ApiResult<Option<CheckpointId>> {
        let reference = match &self.before {
            None => return Ok(None),
            Some(Value::String(id)) => return parse_checkpoint(id).map(Some),
            Some(before) => before.get("configurable").unwrap_or(before),
        };
        match reference.get("checkpoint_id").and_then(Value::as_str) {
            Some(id) => parse_checkpoint(id).map(Some),
            None => Err(ApiError::invalid("`before` must contain a `checkpoint_id`")),
        }
    }
}
