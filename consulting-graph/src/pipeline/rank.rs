//! Ranks the moves and completes the run.

use graph_core::{Context, NodeError};

use super::{
    deps::Deps,
    events::EventSender,
    state::{PipelineState, PipelineStateUpdate},
};
use crate::{
    call,
    event::PipelineEvent,
    rank::{Ranked, rank},
};

/// Ranks the moves by score. Makes no model calls. Fails if no move has a score.
pub(super) async fn rank_and_output(
    run: &PipelineState,
    cx: &Context<Deps>,
) -> Result<PipelineStateUpdate, NodeError> {
    if let (true, Some(first)) = (run.policy_scores.is_empty(), run.unscored_moves.first()) {
        let advice = call::advice(&run.failures);
        return Err(NodeError::terminal(format!(
            "no move was scored; {}: {}; {advice}",
            first.move_id, first.reason
        )));
    }
    let ranking = rank(&run.policy_scores, run.unscored_moves.clone(), cx.deps().config.top_k);
    let ids = |it: &[Ranked]| it.iter().map(|it| it.move_id.to_string()).collect();
    let mut sender = EventSender::new(cx);
    let (recommended, other) = (ids(&ranking.recommended), ids(&ranking.other));
    sender.send(PipelineEvent::PipelineComplete { recommended, other }).await;
    Ok(PipelineState::update()
        .recommended_moves(ranking.recommended)
        .other_moves(ranking.other)
        .status_updates(sender.into_events()))
}
