//! The sandbox layer: one debate per move, each in its own sandbox.

use graph_core::{Context, NodeError, Route};

use super::{
    debate_thread::run_on_own_thread,
    deps::Deps,
    events::EventSender,
    state::{MoveLogs, PipelineState, PipelineStateUpdate},
};
use crate::{
    call::Failure,
    debate_host::{DebateRequest, DebateResult, IsolationRecord},
    event::{Layer, PipelineEvent},
    moves::{Move, MoveId},
    rank::Unscored,
    score::MoveScore,
};

/// Name of the node that runs a debate. The namespaces of the debates' checkpoints contain this name.
pub(crate) const DEBATE_NODE: &str = "sandbox_debate";

/// Starts the sandbox layer.
pub(super) async fn sandbox_orchestrator(
    run: &PipelineState,
    cx: &Context<Deps>,
) -> PipelineStateUpdate {
    let mut sender = EventSender::new(cx);
    sender.send(PipelineEvent::layer_start(Layer::SANDBOX)).await;
    let debates = &cx.deps().debates;
    if let Some(event) = debates.degraded_event() {
        sender.send(event).await;
    }
    debates.set_unfinished(run.moves().iter().map(|it| it.move_id).collect()).await;
    PipelineState::update().status_updates(sender.into_events())
}

#[derive(Route)]
pub(super) enum DebateDispatch {
    #[to(sandbox_debate)]
    Debates(Vec<DebateRequest>),
}

/// Sends each move to its own debate, in the order of the moves.
pub(super) fn sandbox_dispatch(run: &PipelineState) -> DebateDispatch {
    let request =
        |it: Move| DebateRequest::new(it, &run.findings, &run.earlier_debates, &run.held_in);
    DebateDispatch::Debates(run.moves().into_iter().map(request).collect())
}

/// Runs one debate to its end. All debates of the layer are in one superstep, and the queue of the debate host lets
/// them run in order. A resumed run does not run finished debates again, and resumes the others from their own
/// checkpoints.
pub(super) async fn sandbox_debate(
    debate: DebateRequest,
    cx: &Context<Deps>,
) -> Result<PipelineStateUpdate, NodeError> {
    let (debates, move_id) = (&cx.deps().debates, debate.the_move.move_id);
    let result = match cx.deps().debate_saver.clone() {
        Some(saver) => run_on_own_thread(saver, &debate, cx).await?,
        None => debates.queue.run(move_id, debates.run_debate(&debate, cx)).await?,
    };
    // Sends all events of the debate, because an earlier process that ran a part of the debate may have died before it
    // logged them. The event log drops the events that it already contains.
    for event in &result.status_updates {
        cx.emit(event).await;
    }
    Ok(debate_update(move_id, result))
}

fn debate_update(move_id: MoveId, result: DebateResult) -> PipelineStateUpdate {
    let failure = |it: Failure| Failure { place: place(move_id, &it.place), ..it };
    let update = PipelineState::update()
        .held_in([IsolationRecord { move_id, isolation: result.isolation }])
        .failures(result.failures.into_iter().map(failure).collect::<Vec<_>>())
        .conversation_logs([MoveLogs { move_id, logs: result.logs }])
        .calls(result.calls)
        .status_updates(result.status_updates);
    let update = match result.baseline.is_empty() {
        true => update,
        false => update.baseline_scores([MoveScore::new(move_id, result.baseline, [])]),
    };
    match result.problem {
        Some(reason) => update.unscored_moves([Unscored { move_id, reason }]),
        None => update.policy_scores([MoveScore::new(move_id, result.scores, result.marks)]),
    }
}

/// Describes where in the debate about a move a call failed.
fn place(move_id: MoveId, place: &str) -> String {
    format!("{move_id}, {place}")
}

/// Completes the sandbox layer after all debates have ended.
pub(super) async fn sandbox_reduce(run: &PipelineState, cx: &Context<Deps>) -> PipelineStateUpdate {
    let moves: Vec<MoveId> = run.moves().iter().map(|it| it.move_id).collect();
    let record = |id: &MoveId| run.held_in.iter().find(|it| it.move_id == *id).cloned();
    let records: Vec<IsolationRecord> = moves.iter().filter_map(record).collect();
    let is_own = |it: &&Failure| moves.iter().any(|id| it.place.starts_with(&place(*id, "")));
    let failures: Vec<Failure> = run.failures.iter().filter(is_own).cloned().collect();
    let scored = run.policy_scores.iter().map(|it| format!("{}.md", it.move_id)).collect();
    let mut sender = EventSender::new(cx);
    sender.send(PipelineEvent::layer_end(Layer::SANDBOX, scored, &failures)).await;
    PipelineState::update()
        .isolation(Some(cx.deps().debates.combined_isolation(&records)))
        .status_updates(sender.into_events())
}
