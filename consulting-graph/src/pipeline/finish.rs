//! The end: the moves in their order.

use graph_core::Context;

use super::{Deps, PipelineState, PipelineStateUpdate, tell::Telling};
use crate::{
    event::PipelineEvent,
    rank::{Ranked, rank},
};

/// Sorts the moves by their scores. Nobody is asked anything.
pub(super) async fn rank_and_output(
    run: &PipelineState,
    cx: &Context<Deps>,
) -> PipelineStateUpdate {
    let ranking = rank(&run.policy_scores, run.unscored_moves.clone(), cx.deps().config.top_k);
    let ids = |it: &[Ranked]| it.iter().map(|it| it.move_id.to_string()).collect();
    let mut telling = Telling::new(cx);
    let (recommended, other) = (ids(&ranking.recommended), ids(&ranking.other));
    telling.tell(PipelineEvent::PipelineComplete { recommended, other }).await;
    PipelineState::update()
        .recommended_moves(ranking.recommended)
        .other_moves(ranking.other)
        .status_updates(telling.told())
}
