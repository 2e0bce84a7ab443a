//! Runs the debates: one per move, each in its own sandbox.

use futures_util::{StreamExt, TryStreamExt, stream};
use graph_core::{Context, NodeError};

use super::{
    deps::Deps,
    events::EventSender,
    state::{MoveLogs, PipelineState, PipelineStateUpdate},
};
use crate::{
    call::Failure,
    debate_host::{DebateRequest, DebateResult, IsolationRecord},
    event::{Layer, PipelineEvent},
    moves::Move,
    rank::Unscored,
    score::MoveScore,
};

/// Runs the debates with the configured concurrency and collects their results in the order of the moves.
pub(super) async fn sandbox_orchestrator(
    run: &PipelineState,
    cx: &Context<Deps>,
) -> Result<PipelineStateUpdate, NodeError> {
    let mut sender = EventSender::new(cx);
    sender.send(PipelineEvent::layer_start(Layer::SANDBOX)).await;
    let debates = &cx.deps().debates;
    if let Some(event) = debates.degraded_event() {
        sender.send(event).await;
    }
    let moves = run.moves();
    cx.deps().models.share_budget(moves.iter().map(|it| it.move_id));
    let running: Vec<_> = moves.iter().map(|it| debate(run, it, cx)).collect();
    let results = stream::iter(running).buffered(debates.concurrency());
    // The first error aborts the run; no further debate starts.
    let results: Vec<DebateResult> = results.try_collect().await?;
    let (mut records, mut failures) = (Vec::new(), Vec::new());
    let (mut scores, mut baselines, mut unscored, mut logs) = (vec![], vec![], vec![], vec![]);
    let (mut calls, mut events) = (vec![], vec![]);
    for (the_move, result) in moves.iter().zip(results) {
        let move_id = the_move.move_id;
        let DebateResult { backend, level, .. } = result;
        records.push(IsolationRecord { move_id, backend, level });
        failures.extend(
            result
                .failures
                .into_iter()
                .map(|it| Failure { place: format!("{move_id}, {}", it.place), ..it }),
        );
        match result.problem {
            Some(reason) => unscored.push(Unscored { move_id, reason }),
            None => scores.push(MoveScore::new(move_id, result.scores, result.marks)),
        }
        if !result.baseline.is_empty() {
            baselines.push(MoveScore::new(move_id, result.baseline, []));
        }
        logs.push(MoveLogs { move_id, logs: result.logs });
        calls.extend(result.calls);
        events.extend(result.status_updates);
    }
    let scored: Vec<String> = scores.iter().map(|it| format!("{}.md", it.move_id)).collect();
    let update = PipelineState::update()
        .isolation(Some(debates.combined_isolation(&records)))
        .held_in(records)
        .policy_scores(scores)
        .baseline_scores(baselines)
        .unscored_moves(unscored)
        .conversation_logs(logs)
        .failures(failures.clone())
        .calls(calls);
    sender.send(PipelineEvent::layer_end(Layer::SANDBOX, scored, &failures)).await;
    let mut own = sender.into_events();
    let last = own.pop();
    Ok(update.status_updates(own.into_iter().chain(events).chain(last).collect::<Vec<_>>()))
}

/// Runs one debate to its end and journals the result. After a crash, a resumed run reads the result from the journal
/// or, if the debate had not finished, resumes the debate from the debate's own checkpoint.
async fn debate(
    run: &PipelineState,
    the_move: &Move,
    cx: &Context<Deps>,
) -> Result<DebateResult, NodeError> {
    let isolation = run.held_in.iter().find(|it| it.move_id == the_move.move_id);
    let request = DebateRequest { the_move, findings: &run.findings, isolation };
    // A debate with failures is not journaled, so that a resumed run repeats the failed calls.
    let mut failed = None;
    let running = cx.task("debate", the_move.move_id, async {
        let result = cx.deps().debates.run_debate(request, cx).await?;
        match result.failures.first().map(ToString::to_string) {
            None => Ok(result),
            Some(failure) => {
                failed = Some(result);
                Err(NodeError::terminal(failure))
            }
        }
    });
    let result = match (running.await, failed) {
        (Err(_), Some(result)) => result,
        (running, _) => running?,
    };
    // Sends all events of the debate, also if its result comes from the journal, because the process that ran the debate
    // may have died before it logged them. The event log drops the events that it already contains.
    for event in &result.status_updates {
        cx.emit(event).await;
    }
    Ok(result)
}
