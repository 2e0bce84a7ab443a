//! Selection of checkpoints to read, list or keep.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::checkpoint::{
    id::CheckpointId,
    stored::{Header, Source},
};

/// Selects a checkpoint to read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lookup {
    /// Name of the thread.
    pub thread: String,
    /// Namespace of the graph.
    pub namespace: String,
    /// Id of the checkpoint. `None` selects the newest one.
    pub id: Option<CheckpointId>,
}

impl Lookup {
    /// Selects the newest checkpoint in a namespace.
    pub fn head(thread: impl Into<String>, namespace: impl Into<String>) -> Self {
        Self { thread: thread.into(), namespace: namespace.into(), id: None }
    }

    /// Selects a checkpoint by id.
    pub fn exact(
        thread: impl Into<String>,
        namespace: impl Into<String>,
        id: CheckpointId,
    ) -> Self {
        Self { thread: thread.into(), namespace: namespace.into(), id: Some(id) }
    }
}

/// Selects checkpoints of a namespace to list.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct HistoryQuery {
    /// Name of the thread.
    pub thread: String,
    /// Namespace of the graph.
    pub namespace: String,
    /// If set, selects only checkpoints older than this one.
    pub before: Option<CheckpointId>,
    /// Selects only checkpoints whose metadata contains all of these entries.
    pub metadata: Map<String, Value>,
    /// If set, selects only checkpoints with this source.
    pub source: Option<Source>,
    /// If set, selects only checkpoints that this run created.
    #[serde(default)]
    pub run: Option<String>,
    /// If set, selects only checkpoints of this step.
    #[serde(default)]
    pub step: Option<i64>,
    /// Maximum number of checkpoints.
    pub limit: Option<usize>,
}

impl HistoryQuery {
    /// Selects the whole history of a namespace.
    pub fn new(thread: impl Into<String>, namespace: impl Into<String>) -> Self {
        Self { thread: thread.into(), namespace: namespace.into(), ..Self::default() }
    }

    /// Limits the number of checkpoints.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Selects only checkpoints older than this one.
    #[must_use]
    pub fn before(mut self, id: CheckpointId) -> Self {
        self.before = Some(id);
        self
    }

    /// Returns whether the query selects checkpoints by their header, and not only by their position.
    pub fn reads_headers(&self) -> bool {
        let by_header = self.source.is_some() || self.run.is_some() || self.step.is_some();
        by_header || !self.metadata.is_empty()
    }

    /// Returns whether a checkpoint matches the filters. Ignores `limit`.
    pub fn matches(&self, id: CheckpointId, header: &Header) -> bool {
        self.before.is_none_or(|before| id < before)
            && self.source.is_none_or(|source| source == header.source)
            && self.run.as_ref().is_none_or(|run| *run == header.run)
            && self.step.is_none_or(|step| step == header.step)
            && self.metadata.iter().all(|(key, value)| header.metadata.get(key) == Some(value))
    }
}

/// Which checkpoints [`Checkpointer::prune`](crate::Checkpointer::prune) keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Keep {
    /// The newest `n` checkpoints in each namespace, but at least one.
    Newest(usize),
    /// Checkpoints created at or after this time, and the newest one in each namespace.
    Since(SystemTime),
}

/// The amount of data that [`Checkpointer::prune`](crate::Checkpointer::prune) deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PruneStats {
    /// Number of deleted checkpoints.
    pub checkpoints: usize,
}
