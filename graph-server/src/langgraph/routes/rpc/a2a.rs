//! A2A: each assistant is an agent. A message starts a run on the thread with the message's context id; the run is a
//! task. The graph must have a `messages` field.

mod card;
mod events;
mod task;

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::Path,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde_json::{Value, json};
use uuid::Uuid;

use self::{
    card::{CARD_PATH, agent_card},
    events::TaskEvents,
    task::{Outcome, Task, answer},
};
use super::{
    envelope::{Request, RpcError, response},
    run::{output_of, start_run},
};
use crate::langgraph::{
    access::Access,
    assistants::find_assistant,
    cancellation::{CancelAction, Cancellation},
    error::ApiResult,
    id::new_id,
    manager::{LiveRun, Manager},
    records::{Run, RunStatus, Thread},
    request::body::Body,
    stream::sse::respond,
};

/// A2A error code for a task that does not exist.
const UNKNOWN_TASK: i32 = -32001;
/// A2A error code for a task that has ended and therefore cannot be cancelled.
const NOT_CANCELABLE: i32 = -32002;

pub(super) fn routes() -> Router<Arc<Manager>> {
    Router::new().route("/a2a/{assistant}", post(handle)).route(CARD_PATH, get(agent_card))
}

async fn handle(
    Access(manager): Access,
    Path(assistant): Path<String>,
    Body(request): Body<Request>,
) -> ApiResult<Response> {
    let assistant = find_assistant(&manager.graphs, &manager.database, &assistant).await?;
    let assistant = assistant.assistant_id.to_string();
    let params = &request.params;
    let result = match (request.check(), request.method.as_str()) {
        (Err(error), _) => Err(error),
        (Ok(()), "message/send") => send(&manager, &assistant, params).await,
        (Ok(()), "message/stream") => match start(&manager, &assistant, params).await {
            Ok((task, live)) => {
                return Ok(respond(TaskEvents::new(manager, request.id, task, live), ()));
            }
            Err(error) => Err(error),
        },
        (Ok(()), "tasks/get") => read(&manager, params).await,
        (Ok(()), "tasks/cancel") => cancel(&manager, params).await,
        (Ok(()), method) => Err(RpcError::unknown_method(method)),
    };
    Ok(Json(response(request.id.as_ref(), result)).into_response())
}

/// Starts a run of the assistant on a message.
async fn start(
    manager: &Arc<Manager>,
    assistant: &str,
    params: &Value,
) -> Result<(Task, Arc<LiveRun>), RpcError> {
    let message = &params["message"];
    let parts = message["parts"].as_array().map(Vec::as_slice).unwrap_or_default();
    if parts.is_empty() || parts.iter().any(|it| !it["text"].is_string()) {
        let problem = "`message.parts` must be a list of text parts; other parts are not supported";
        return Err(RpcError::invalid_params(problem));
    }
    let text: Vec<_> = parts.iter().filter_map(|it| it["text"].as_str()).collect();
    let thread = match message["contextId"].as_str() {
        None => new_id(),
        Some(id) => Uuid::try_parse(id).map_err(|_| {
            RpcError::invalid_params(format!("`message.contextId` is `{id}`; it must be a UUID"))
        })?,
    };
    let input = json!({ "messages": [{ "role": "user", "content": text.join("\n") }] });
    let (run, live) = start_run(manager, Some(thread), assistant, &input).await?;
    Ok((Task { run, thread }, live))
}

/// Runs the assistant on a message, and returns the run as a task.
async fn send(manager: &Arc<Manager>, assistant: &str, params: &Value) -> Result<Value, RpcError> {
    let (task, live) = start(manager, assistant, params).await?;
    ended(manager, &task, &live).await
}

/// Waits for the end of a task and encodes it.
async fn ended(manager: &Manager, task: &Task, live: &LiveRun) -> Result<Value, RpcError> {
    let output = output_of(live).await?;
    let Outcome { state, text } = task.outcome(manager, &output).await?;
    Ok(task.to_json(state, text.as_deref()))
}

/// Returns the run that the request names.
async fn find_run(manager: &Manager, params: &Value) -> Result<Run, RpcError> {
    let id = params["id"].as_str().unwrap_or_default();
    let unknown = || RpcError(UNKNOWN_TASK, format!("task `{id}` does not exist"));
    let run = Uuid::try_parse(id).map_err(|_| unknown())?;
    manager.database.get::<Run>(&run.to_string()).await?.ok_or_else(unknown)
}

async fn read(manager: &Manager, params: &Value) -> Result<Value, RpcError> {
    let run = find_run(manager, params).await?;
    let stored = manager.thread(run.thread_id).await?;
    let state = match run.status {
        RunStatus::Pending => "submitted",
        RunStatus::Running => "working",
        RunStatus::Success if waits_for_input(manager, &run, &stored).await? => "input-required",
        RunStatus::Success => "completed",
        RunStatus::Error | RunStatus::Timeout => "failed",
        RunStatus::Interrupted => "canceled",
    };
    let text = stored.values.filter(|_| state == "completed").map(|it| answer(&it));
    let task = Task { run: run.run_id, thread: run.thread_id };
    Ok(task.to_json(state, text.as_deref()))
}

/// Returns whether a run ended with an interrupt that no later run has answered.
async fn waits_for_input(manager: &Manager, run: &Run, thread: &Thread) -> Result<bool, RpcError> {
    if thread.interrupts.is_empty() {
        return Ok(false);
    }
    let id = run.thread_id.to_string();
    let runs = manager.database.list::<Run>(Some(&id)).await?;
    Ok(runs.last().is_some_and(|it| it.run_id == run.run_id))
}

async fn cancel(manager: &Arc<Manager>, params: &Value) -> Result<Value, RpcError> {
    let run = find_run(manager, params).await?;
    let (thread, run) = (run.thread_id, run.run_id);
    let cancellation = Cancellation::new(CancelAction::Interrupt, "a client cancelled the task");
    let not_cancelable =
        |_| RpcError(NOT_CANCELABLE, format!("task `{run}` has ended and cannot be cancelled"));
    let live = manager.cancel(thread, run, cancellation).await.map_err(not_cancelable)?;
    // The run may end by itself before the cancellation takes effect.
    ended(manager, &Task { run, thread }, &live).await
}
