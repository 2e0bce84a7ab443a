//! The debates: one for each move, each in a sandbox of its own.

use futures_util::{StreamExt, TryStreamExt, stream};
use graph_core::{Context, NodeError};

use super::{Deps, MoveLogs, PipelineState, PipelineStateUpdate, tell::Telling};
use crate::{
    debates::{Debate, HeldIn, Settled},
    event::{Layer, PipelineEvent},
    moves::Move,
    rank::Unscored,
    score::MoveScore,
};

/// Holds the debates, so many at once as the run was told, and takes their outcomes in the order of the moves.
pub(super) async fn sandbox_orchestrator(
    run: &PipelineState,
    cx: &Context<Deps>,
) -> Result<PipelineStateUpdate, NodeError> {
    let mut telling = Telling::new(cx);
    telling.tell(PipelineEvent::layer_start(Layer::SANDBOX)).await;
    let debates = &cx.deps().debates;
    if let Some(reason) = debates.degraded() {
        let backend = debates.backend().to_owned();
        telling.tell(PipelineEvent::SandboxDegraded { backend, reason }).await;
    }
    let moves = run.moves();
    let held: Vec<_> = moves.iter().map(|it| debate(run, it, cx)).collect();
    let settled = stream::iter(held).buffered(debates.concurrency());
    // Whatever ends one of them ends the run, and no other is begun.
    let settled: Vec<Settled> = settled.try_collect().await?;
    let (mut held_in, mut warnings) = (Vec::new(), Vec::new());
    let (mut scores, mut baselines, mut unscored, mut logs) = (vec![], vec![], vec![], vec![]);
    let (mut calls, mut events) = (vec![], vec![]);
    for (the_move, settled) in moves.iter().zip(settled) {
        let move_id = the_move.move_id;
        let Settled { backend, isolated, .. } = settled;
        held_in.push(HeldIn { move_id, backend, isolated });
        warnings.extend(settled.warnings.iter().map(|it| format!("{move_id}, {it}")));
        match settled.problem {
            Some(reason) => unscored.push(Unscored { move_id, reason }),
            None => scores.push(MoveScore::new(move_id, settled.scores, settled.marks)),
        }
        if !settled.baseline.is_empty() {
            baselines.push(MoveScore::new(move_id, settled.baseline, []));
        }
        logs.push(MoveLogs { move_id, logs: settled.logs });
        calls.extend(settled.calls);
        events.extend(settled.status_updates);
    }
    if let (true, Some(first)) = (scores.is_empty(), unscored.first()) {
        return Err(NodeError::terminal(format!(
            "no move has a score; of {}: {}; resuming the run tries again",
            first.move_id, first.reason
        )));
    }
    let scored: Vec<String> = scores.iter().map(|it| it.move_id.to_string()).collect();
    let update = PipelineState::update()
        .isolation(Some(debates.isolation(&held_in)))
        .held_in(held_in)
        .policy_scores(scores)
        .baseline_scores(baselines)
        .unscored_moves(unscored)
        .conversation_logs(logs)
        .warnings(warnings)
        .calls(calls);
    telling.tell(PipelineEvent::layer_complete(Layer::SANDBOX, scored)).await;
    let mut own = telling.told();
    let last = own.pop();
    Ok(update.status_updates(own.into_iter().chain(events).chain(last).collect::<Vec<_>>()))
}

/// One debate to its end, once: a run that goes on after a crash finds the outcome in its journal, or the debate where
/// it stood.
async fn debate(
    run: &PipelineState,
    the_move: &Move,
    cx: &Context<Deps>,
) -> Result<Settled, NodeError> {
    let held_in = run.held_in.iter().find(|it| it.move_id == the_move.move_id);
    let debate = Debate { the_move, findings: &run.findings, held_in };
    // One that came to nothing is not journaled: a run that goes on holds it again.
    let mut failed = None;
    let held = cx.task("debate", the_move.move_id, async {
        let settled = cx.deps().debates.hold(debate, cx).await?;
        match settled.problem.clone() {
            None => Ok(settled),
            Some(problem) => {
                failed = Some(settled);
                Err(NodeError::terminal(problem))
            }
        }
    });
    match (held.await, failed) {
        (Err(_), Some(settled)) => Ok(settled),
        (held, _) => held,
    }
}
