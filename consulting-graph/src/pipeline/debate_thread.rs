//! Debates on separate threads.
//!
//! On a cluster, the task of a debate may run on a worker that cannot write to the thread of the pipeline. The debate
//! is therefore stored in a separate thread. If the worker dies, the next one resumes the debate from that thread, and
//! repeats no model call whose answer is stored.

use std::{sync::Arc, time::Duration};

use graph_core::{
    Checkpointer, CompiledGraph, Context, Durability, EventKind, Input, NodeError, RunError,
    RunOptions, RunOutcome, START, State, StateGraph, StreamMode, Thread,
    checkpoint::CheckpointError, runs_graph,
};
use tokio::time::sleep;

use super::deps::Deps;
use crate::{
    debate,
    debate_host::{DebateHost, DebateRequest, DebateResult},
};

/// Delay before the thread is opened again while the previous worker holds its lease. It doubles with each failure of
/// the storage.
const RETRY_DELAY: Duration = Duration::from_millis(200);
const MAX_DELAY: Duration = Duration::from_secs(60);
/// Number of failures of the storage after which a debate fails. The delays between the attempts add up to almost eight
/// minutes.
const MAX_FAILURES: u32 = 14;

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

/// Runs a debate on a separate thread, from its last checkpoint. Forwards its events. Waits while the storage fails.
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
    let mut failures = 0;
    loop {
        let error = match run_to_end(&thread, request, cx).await {
            Ok(Some(state)) => return result(state),
            Ok(None) => return Err(NodeError::terminal("the debate stopped before its end")),
            Err(error) => error,
        };
        let delay = match checkpoint_error(&error) {
            Some(CheckpointError::Busy { .. }) => RETRY_DELAY,
            Some(
                CheckpointError::Storage(_)
                | CheckpointError::HeadMoved { .. }
                | CheckpointError::LeaseLost { .. },
            ) if failures < MAX_FAILURES => {
                tracing::warn!(%move_id, %error, "cannot store a debate; retrying");
                failures += 1;
                MAX_DELAY.min(RETRY_DELAY * 2_u32.pow(failures))
            }
            _ => return Err(NodeError::terminal(error)),
        };
        sleep(delay).await;
    }
}

/// Runs a debate from its last checkpoint. Returns its final state, or `None` if it stopped before its end.
async fn run_to_end(
    thread: &Thread<DebateThread, Arc<DebateHost>>,
    request: &DebateRequest,
    cx: &Context<Deps>,
) -> Result<Option<DebateThread>, RunError> {
    let input = DebateThread { request: Some(request.clone()), result: None };
    let mut events = thread.stream(Input::start_or_continue(input.into_update()));
    while let Some(event) = events.next().await {
        if let EventKind::Custom(value) = &event.kind {
            cx.emit(value).await;
        }
    }
    match events.finish().await? {
        RunOutcome::Done(state) => Ok(Some(state)),
        _ => Ok(None),
    }
}

/// Returns the error of the checkpointer that ended a run.
fn checkpoint_error(error: &RunError) -> Option<&CheckpointError> {
    match error {
        RunError::Checkpoint(error) => Some(error),
        // The node could not store the result of an external call.
        RunError::Node { error, .. } => {
            (&**error as &(dyn std::error::Error + 'static)).downcast_ref()
        }
        _ => None,
    }
}

fn result(thread: DebateThread) -> Result<DebateResult, NodeError> {
    thread.result.ok_or_else(|| NodeError::terminal("the debate ended without a result"))
}
