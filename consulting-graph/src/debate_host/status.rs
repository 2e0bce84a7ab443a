//! Status of a debate when its run starts or resumes.

use std::sync::Arc;

use graph_core::{AsNode, Checkpointer, NodeError, RunError, Thread, ThreadState};

use super::result::DebateResult;
use crate::{
    config::Config,
    debate::{self, HostClient, SandboxState},
    moves::MoveId,
    prompt::Brief,
    rewind::newest_ancestor,
};

pub(super) enum DebateStatus {
    /// No checkpoint exists.
    New,
    /// The debate was interrupted and can be resumed.
    InProgress,
    /// The debate ended without a failure.
    Finished(Box<DebateResult>),
}

/// Returns the status of the debate about a move. If a call of the debate failed, rewinds its thread to the state before
/// the failure, so that the call is made again. If the thread belongs to another version of the move, or cannot be
/// rewound, deletes it. Repeated calls with a recorded answer are not paid for again.
pub(super) async fn prepare_debate(
    saver: &Arc<dyn Checkpointer>,
    move_id: MoveId,
    brief: &Brief,
    config: &Config,
) -> Result<DebateStatus, NodeError> {
    let name = move_id.to_string();
    let graph = debate::graph(saver.clone()).map_err(NodeError::terminal)?;
    let thread = graph.thread(&name, HostClient::disconnected());
    match thread.state().await {
        Ok(None) => return Ok(DebateStatus::New),
        Ok(Some(head)) if head.values.brief != *brief => {}
        Ok(Some(head)) if !head.values.failures.is_empty() => {
            if rewind(&thread).await.map_err(NodeError::terminal)? {
                return Ok(DebateStatus::InProgress);
            }
        }
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

/// Rewinds a debate to its newest checkpoint without a failure. Returns false if the first node of the debate failed, so
/// that there is nothing to keep.
async fn rewind(thread: &Thread<SandboxState, HostClient>) -> Result<bool, RunError> {
    let is_match = |it: &ThreadState<SandboxState>| it.values.failures.is_empty();
    let Some(checkpoint) = newest_ancestor(thread, is_match).await? else { return Ok(false) };
    let state = &checkpoint.values;
    let previous = match checkpoint.next.first().map(|it| &**it) {
        Some("dm_respond") if state.current_round == 1 => "critic_round_1",
        Some("dm_respond") => "critic_individual",
        Some("critic_individual" | "score_move") => "dm_respond",
        Some("critic_round_1") if state.terms.baseline => "score_before",
        _ => return Ok(false),
    };
    let update = SandboxState::update().max_rounds(state.max_rounds);
    thread.at(checkpoint.id).update_state(update, AsNode::node(previous)).await?;
    Ok(true)
}
