//! Going on with a run that is at its end, though not all of its moves have what they should.

use graph_core::{AsNode, Checkpointer, RunError, checkpoint::Lookup};
use graph_store::sqlite::SqliteSaver;
use serde_json::Value;

use super::{RunProblem, fork::find, parts::Parts};
use crate::{debates::HeldIn, moves::MoveId, pipeline::PipelineState, score::Mark};

/// Takes a run that is at its end back to its debates, if some of them are to be held again: those that left a move
/// without a score, and, where the run may spend more by now, those that ended for want of it. What they paid for is in
/// the run's recording. Says whether there are any.
///
/// The other debates stay as they are. So the run comes to what it would have come to if nothing had been missing, and a
/// replay, which knows of no interruption, comes to the same.
pub(super) async fn reopen(parts: &Parts, state: &PipelineState) -> Result<bool, RunProblem> {
    let unscored = state.unscored_moves.iter().map(|it| it.move_id);
    let mut again: Vec<MoveId> = unscored.collect();
    if parts.is_raised {
        again.extend(cut_short(&parts.saver, state).await?);
    }
    if again.is_empty() {
        return Ok(false);
    }
    let stays = |it: &&HeldIn| !again.contains(&it.move_id);
    let held_in: Vec<HeldIn> = state.held_in.iter().filter(stays).cloned().collect();
    let debates = "sandbox_orchestrator";
    let place = find(&parts.thread, debates, |it| it.next.iter().any(|it| it == debates)).await?;
    let update = PipelineState::update().held_in(held_in);
    parts.thread.at(place.id).update_state(update, AsNode::node("layer_2_reduce")).await?;
    for move_id in again {
        parts.saver.delete_thread(&move_id.to_string()).await.map_err(RunError::from)?;
    }
    Ok(true)
}

/// Moves with a score whose debates ended before their last round because nothing was left to spend.
async fn cut_short(saver: &SqliteSaver, state: &PipelineState) -> Result<Vec<MoveId>, RunProblem> {
    let mut found = Vec::new();
    for it in state.policy_scores.iter().filter(|it| it.marks.contains(&Mark::Incomplete)) {
        let head = saver.get(&Lookup::head(it.move_id.to_string(), "")).await;
        let values = head.map_err(RunError::from)?.map(|it| it.values).unwrap_or_default();
        if values.get("ended_early").is_some_and(Value::is_string) {
            found.push(it.move_id);
        }
    }
    Ok(found)
}
