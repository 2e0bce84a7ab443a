//! Debates on threads of their own.
//!
//! On a cluster, the task of a debate may run on any worker, which cannot write to the thread of the pipeline. The debate
//! is therefore stored in a thread of its own. If the worker dies, the next one resumes the debate from that thread, and
//! makes no model call again whose answer is stored.

use std::{sync::Arc, time::Duration};

use graph_core::{
    Checkpointer, CompiledGraph, Context, Durability, EventKind, Input, NodeError, RunError,
    RunOptions, RunOutcome, START, State, StateGraph, StreamMode, checkpoint::CheckpointError,
    runs_graph,
};
use tokio::time::sleep;

use super::deps::Deps;
use crate::{
    debate,
    debate_host::{DebateHost, DebateRequest, DebateResult},
};

/// Delay before the thread is opened again while the previous worker holds its lease.
const LEASE_RETRY: Duration = Duration::from_millis(200);

/// State of the thread of a debate.
#[derive(State, Clone, Debug, Default)]
struct DebateThread {
    request: Option<DebateRequest>,
    result: Option<DebateResult>,
}

async fn run_debate(
    thread: &DebateThread,
    cx: &Context<Arc<DebateHost>>,
) -> Result<DebateThreadUpdate, NodeError> {
    let request = thread.request.as_ref();
    let request = request.ok_or_else(|| NodeError::terminal("the debate has no request"))?;
    let result = cx.deps().run_debate(request, cx).await?;
    Ok(DebateThread::update().result(Some(result)))
}

fn graph(
    saver: Arc<dyn Checkpointer>,
) -> Result<CompiledGraph<DebateThread, Arc<DebateHost>>, NodeError> {
    let debate = debate::graph().map_err(NodeError::terminal)?;
    let graph = StateGraph::new()
        .node(runs_graph(run_debate, &debate))
        .edge(START, run_debate)
        .shared_checkpointer(saver);
    graph.compile().map_err(NodeError::terminal)
}

/// Runs a debate on a thread of its own, from its last checkpoint. Forwards its events.
pub(super) async fn run_on_own_thread(
    saver: Arc<dyn Checkpointer>,
    request: &DebateRequest,
    cx: &Context<Deps>,
) -> Result<DebateResult, NodeError> {
    let (debates, move_id) = (&cx.deps().debates, request.the_move.move_id);
    tracing::info!(%move_id, run = debates.run_id, "debate started");
    let name = format!("{}/debate/{move_id}", debates.run_id);
    let options = RunOptions::new()
        .durability(Durability::Sync)
        .stream_modes([StreamMode::Custom])
        .subgraphs();
    let thread = graph(saver)?.thread(name, debates.clone()).with_options(options);
    loop {
        let head = thread.state().await.map_err(NodeError::terminal)?;
        let input = match head {
            None => Input::from(DebateThread { request: Some(request.clone()), result: None }),
            Some(head) if head.is_done() => return result(head.values),
            Some(_) => Input::proceed(),
        };
        let mut events = thread.stream(input);
        while let Some(event) = events.next().await {
            if let EventKind::Custom(value) = &event.kind {
                cx.emit(value).await;
            }
        }
        match events.finish().await {
            Ok(RunOutcome::Done(state)) => return result(state),
            Ok(_) => return Err(NodeError::terminal("the debate stopped before its end")),
            Err(RunError::Checkpoint(CheckpointError::Busy { .. })) => sleep(LEASE_RETRY).await,
            Err(error) => return Err(NodeError::terminal(error)),
        }
    }
}

fn result(thread: DebateThread) -> Result<DebateResult, NodeError> {
    thread.result.ok_or_else(|| NodeError::terminal("the debate ended without a result"))
}
