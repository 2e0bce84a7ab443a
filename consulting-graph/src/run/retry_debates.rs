//! Repeats incomplete debates when a complete run is resumed.

use graph_core::{AsNode, Checkpointer, checkpoint::Lookup};
use graph_store::sqlite::SqliteSaver;
use serde_json::Value;

use super::{error::RunError, resources::RunResources, threads::find_checkpoint};
use crate::{debate_host::IsolationRecord, moves::MoveId, pipeline::PipelineState, score::Mark};

/// If a complete run has incomplete debates, rewinds its pipeline to the checkpoint before the debates and deletes the
/// threads of the incomplete debates, so that they are repeated. Returns whether there are incomplete debates.
///
/// A debate is incomplete if it left its move without a score. If the spending limit was raised, a debate is also
/// incomplete if it ended early because the budget was exhausted. Repeated debates read the answers that were already
/// paid for from the recording, and all complete debates are kept. The result is therefore the same as that of an
/// uninterrupted run, and a replay reproduces it.
pub(super) async fn reset_incomplete_debates(
    resources: &RunResources,
    state: &PipelineState,
) -> Result<bool, RunError> {
    let unscored = state.unscored_moves.iter().map(|it| it.move_id);
    let mut incomplete: Vec<MoveId> = unscored.collect();
    if resources.limit_raised {
        incomplete.extend(debates_cut_short(&resources.saver, state).await?);
    }
    if incomplete.is_empty() {
        return Ok(false);
    }
    let is_kept = |it: &&IsolationRecord| !incomplete.contains(&it.move_id);
    let records: Vec<IsolationRecord> = state.held_in.iter().filter(is_kept).cloned().collect();
    let node = "sandbox_orchestrator";
    let checkpoint =
        find_checkpoint(&resources.thread, node, |it| it.next.iter().any(|it| it == node)).await?;
    let update = PipelineState::update().held_in(records);
    resources.thread.at(checkpoint.id).update_state(update, AsNode::node("layer_2_reduce")).await?;
    for move_id in incomplete {
        resources
            .saver
            .delete_thread(&move_id.to_string())
            .await
            .map_err(graph_core::RunError::from)?;
    }
    Ok(true)
}

/// Returns scored moves whose debates ended early because the budget was exhausted.
async fn debates_cut_short(
    saver: &SqliteSaver,
    state: &PipelineState,
) -> Result<Vec<MoveId>, RunError> {
    let mut moves = Vec::new();
    for it in state.policy_scores.iter().filter(|it| it.marks.contains(&Mark::Incomplete)) {
        let head = saver.get(&Lookup::head(it.move_id.to_string(), "")).await;
        let values =
            head.map_err(graph_core::RunError::from)?.map(|it| it.values).unwrap_or_default();
        if values.get("ended_early").is_some_and(Value::is_string) {
            moves.push(it.move_id);
        }
    }
    Ok(moves)
}
