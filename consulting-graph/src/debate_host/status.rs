//! Status of a debate when its run starts or resumes.

use graph_core::{NodeError, checkpoint::Lookup};
use serde_json::Value;

use super::{DebateHost, DebateResult};
use crate::{
    config::Config,
    debate::{self, HostClient},
    moves::MoveId,
};

/// Status of a debate.
pub(super) enum DebateStatus {
    /// No checkpoint exists.
    New,
    /// The debate was interrupted and can be resumed.
    InProgress,
    /// The debate ended with a score.
    Finished(Box<DebateResult>),
}

impl DebateHost {
    /// Returns the status of the debate about a move. If the debate ended without a score, deletes its thread, so that
    /// the debate starts over. Recorded answers are reused and not paid for again. Only the failed calls are repeated.
    pub(super) async fn reset_failed_debate(
        &self,
        move_id: MoveId,
        config: &Config,
    ) -> Result<DebateStatus, NodeError> {
        let thread = move_id.to_string();
        let head = self.saver.get(&Lookup::head(&thread, "")).await.map_err(NodeError::terminal)?;
        let Some(head) = head else { return Ok(DebateStatus::New) };
        let graph = debate::graph(self.saver.clone()).map_err(NodeError::terminal)?;
        let state = graph.thread(&thread, HostClient::disconnected()).state().await;
        if !state.map_err(NodeError::terminal)?.is_some_and(|it| it.is_done()) {
            return Ok(DebateStatus::InProgress);
        }
        let result = DebateResult::from_state(Value::Object(head.values), config, move_id);
        if result.problem.is_none() {
            return Ok(DebateStatus::Finished(Box::new(result)));
        }
        self.saver.delete_thread(&thread).await.map_err(NodeError::terminal)?;
        Ok(DebateStatus::New)
    }
}
