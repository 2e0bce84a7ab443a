//! Status of a debate when its run starts or resumes.

use std::sync::Arc;

use graph_core::{Checkpointer, NodeError, RunError};

use super::result::DebateResult;
use crate::{
    config::Config,
    debate::{self, HostClient},
    moves::MoveId,
};

pub(super) enum DebateStatus {
    /// No checkpoint exists.
    New,
    /// The debate was interrupted and can be resumed.
    InProgress,
    /// The debate ended with a score.
    Finished(Box<DebateResult>),
}

/// Returns the status of the debate about a move. If the debate ended without a score, deletes its thread, so that the
/// debate starts over. The new debate reads the recorded answers, which are not paid for again, and repeats only the
/// failed calls.
pub(super) async fn reset_failed_debate(
    saver: &Arc<dyn Checkpointer>,
    move_id: MoveId,
    config: &Config,
) -> Result<DebateStatus, NodeError> {
    let name = move_id.to_string();
    let graph = debate::graph(saver.clone()).map_err(NodeError::terminal)?;
    match graph.thread(&name, HostClient::disconnected()).state().await {
        Ok(None) => return Ok(DebateStatus::New),
        Ok(Some(head)) if !head.is_done() => return Ok(DebateStatus::InProgress),
        Ok(Some(head)) => {
            let state = serde_json::to_value(&head.values).map_err(NodeError::terminal)?;
            let result = DebateResult::from_state(state, config, move_id);
            if result.problem.is_none() {
                return Ok(DebateStatus::Finished(Box::new(result)));
            }
        }
        Err(error @ RunError::Checkpoint(_)) => return Err(NodeError::terminal(error)),
        // The guest stored a state that is not valid for the graph, so the debate failed.
        Err(_) => {}
    }
    saver.delete_thread(&name).await.map_err(NodeError::terminal)?;
    Ok(DebateStatus::New)
}
