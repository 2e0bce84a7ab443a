//! Reads the checkpoints of a thread's graph or of one of its subgraphs.

use std::sync::Arc;

use crate::{
    checkpoint::{
        id::CheckpointId, query::Lookup, saver::Checkpointer, writer::wait_for_dropped_runs,
    },
    engine::inspect::{Snapshot, View, snapshot},
    error::RunError,
    graph::erased::Graph,
    run::history::HistoryFilter,
};

/// Number of checkpoints read at once when the history is filtered by the nodes that run next.
const HISTORY_PAGE: usize = 64;

/// A graph of a thread: the thread's own graph, or one of its subgraphs.
pub(super) struct Reader<'a> {
    pub(super) graph: &'a Graph,
    pub(super) saver: &'a Arc<dyn Checkpointer>,
    pub(super) thread: &'a str,
    pub(super) namespace: &'a str,
}

impl Reader<'_> {
    /// Returns the state at a checkpoint, or the current state. Returns `None` if there is no such checkpoint.
    pub(super) async fn state(
        &self,
        at: Option<CheckpointId>,
        subgraphs: bool,
    ) -> Result<Option<Snapshot>, RunError> {
        wait_for_dropped_runs(self.thread).await;
        let lookup = Lookup { id: at, ..Lookup::head(self.thread, self.namespace) };
        let view = View { live: at.is_none(), subgraphs };
        match self.saver.get(&lookup).await? {
            Some(checkpoint) => Ok(Some(snapshot(self.graph, self.saver, checkpoint, view).await?)),
            None => Ok(None),
        }
    }

    /// Returns the checkpoints that the filter selects, newest first.
    pub(super) async fn history(&self, filter: HistoryFilter) -> Result<Vec<Snapshot>, RunError> {
        wait_for_dropped_runs(self.thread).await;
        let mut query = filter.query(self.thread, self.namespace);
        let limit = filter.limit.unwrap_or(usize::MAX);
        let mut history = Vec::new();
        while history.len() < limit {
            // The checkpointer does not know which nodes run next, so more checkpoints than the limit may be needed.
            let page = match (&filter.next, filter.limit) {
                (Some(_), _) => Some(HISTORY_PAGE),
                (None, limit) => limit,
            };
            query.limit = page;
            let checkpoints = self.saver.list(&query).await?;
            let is_last = page.is_none_or(|it| checkpoints.len() < it) || filter.next.is_none();
            query.before = checkpoints.last().map(|it| it.key.id).or(query.before);
            for checkpoint in checkpoints {
                let view = View { live: false, subgraphs: false };
                let state = snapshot(self.graph, self.saver, checkpoint, view).await?;
                if filter.next.as_ref().is_none_or(|it| state.next.contains(it)) {
                    history.push(state);
                }
            }
            if is_last {
                break;
            }
        }
        history.truncate(limit);
        Ok(history)
    }
}
