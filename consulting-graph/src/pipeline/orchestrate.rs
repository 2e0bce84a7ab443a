//! The debates: one for each move, each in a sandbox of its own.

use futures_util::{StreamExt, stream};
use graph_core::{Context, NodeError};

use super::{Deps, MoveLogs, PipelineState, PipelineStateUpdate, tell::Telling};
use crate::{
    debates::{Debate, Settled},
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
    let settled: Vec<Result<Settled, NodeError>> = settled.collect().await;
    let mut isolation = debates.isolation();
    let (mut warnings, mut backends) = (Vec::new(), Vec::<String>::new());
    let (mut scores, mut baselines, mut unscored, mut logs) = (vec![], vec![], vec![], vec![]);
    let (mut calls, mut events) = (vec![], vec![]);
    for (the_move, settled) in moves.iter().zip(settled) {
        let settled = settled?;
        let move_id = the_move.move_id;
        isolation.isolated &= settled.isolated;
        if !backends.contains(&settled.backend) {
            backends.push(settled.backend);
        }
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
            "no move has a score; of {}: {}; `consulting resume` tries again",
            first.move_id, first.reason
        )));
    }
    isolation.backend = backends.join(", ");
    let scored: Vec<String> = scores.iter().map(|it| it.move_id.to_string()).collect();
    let update = PipelineState::update()
        .isolation(Some(isolation))
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
    let debate = Debate { the_move, findings: &run.findings };
    // One that came to nothing is not journaled: a run that goes on tries it again.
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
