//! A2A: each assistant is an agent. A message starts a run on the thread with the message's context id; the run is a
//! task. The graph must have a `messages` field.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{Path, State},
    http::HeaderMap,
    routing::{get, post},
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    envelope::{Request, RpcError, response},
    run::{error_of, run_to_end},
};
use crate::langgraph::{
    assistants::find_assistant,
    error::{ApiError, ApiResult},
    id::new_id,
    manager::Manager,
    records::{Run, RunStatus},
    request::{body::Body, query::Query},
};

/// The code of A2A for a task that does not exist.
const UNKNOWN_TASK: i32 = -32001;

pub(super) fn routes() -> Router<Arc<Manager>> {
    Router::new()
        .route("/a2a/{assistant}", post(handle))
        .route("/.well-known/agent-card.json", get(agent_card))
}

async fn handle(
    State(manager): State<Arc<Manager>>,
    Path(assistant): Path<String>,
    Body(request): Body<Request>,
) -> ApiResult<Json<Value>> {
    let assistant = find_assistant(&manager.graphs, &manager.database, &assistant)?;
    let assistant = assistant.assistant_id.to_string();
    let result = match (request.check(), request.method.as_str()) {
        (Err(error), _) => Err(error),
        (Ok(()), "message/send") => send(&manager, &assistant, &request.params).await,
        (Ok(()), "tasks/get") => read(&manager, &request.params),
        (Ok(()), method) => Err(RpcError::unknown_method(method)),
    };
    Ok(Json(response(request.id.as_ref(), result)))
}

/// Runs the assistant on a message, and returns the run as a task.
async fn send(manager: &Arc<Manager>, assistant: &str, params: &Value) -> Result<Value, RpcError> {
    let message = &params["message"];
    let parts = message["parts"].as_array().map(Vec::as_slice).unwrap_or_default();
    if parts.is_empty() || parts.iter().any(|it| !it["text"].is_string()) {
        let problem = "`message.parts` must be a list of text parts; other parts are not supported";
        return Err(RpcError::invalid_params(problem));
    }
    let text: Vec<_> = parts.iter().filter_map(|it| it["text"].as_str()).collect();
    let context = match message["contextId"].as_str() {
        None => new_id(),
        Some(id) => Uuid::try_parse(id)
            .map_err(|_| RpcError::invalid_params("`message.contextId` must be a UUID"))?,
    };
    let input = json!({ "messages": [{ "role": "user", "content": text.join("\n") }] });
    let (run, output) = run_to_end(manager, Some(context), assistant, input).await?;
    let state = match error_of(&output) {
        Some(_) => "failed",
        None if output.get("__interrupt__").is_some() => "input-required",
        None => "completed",
    };
    let text = error_of(&output).unwrap_or_else(|| answer(&output));
    Ok(task(run, context, state, Some(&text)))
}

/// Returns the text of the last message, or the whole output if it has no messages.
fn answer(output: &Value) -> String {
    let last = output["messages"].as_array().and_then(|it| it.last());
    match last.map(|it| &it["content"]) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(blocks)) => blocks.iter().filter_map(|it| it["text"].as_str()).collect(),
        _ => output.to_string(),
    }
}

fn read(manager: &Manager, params: &Value) -> Result<Value, RpcError> {
    let id = params["id"].as_str().unwrap_or_default();
    let run = manager.database.get::<Run>(id).map_err(ApiError::from)?;
    let run = run.ok_or_else(|| RpcError(UNKNOWN_TASK, format!("task `{id}` does not exist")))?;
    let state = match run.status {
        RunStatus::Pending => "submitted",
        RunStatus::Running => "working",
        RunStatus::Success => "completed",
        RunStatus::Error | RunStatus::Timeout => "failed",
        RunStatus::Interrupted => "canceled",
    };
    let stored = manager.thread(run.thread_id)?;
    let text = stored.values.filter(|_| state == "completed").map(|it| answer(&it));
    Ok(task(run.run_id, run.thread_id, state, text.as_deref()))
}

fn task(run: Uuid, thread: Uuid, state: &str, text: Option<&str>) -> Value {
    let artifact = |text: &str| {
        json!({
            "artifactId": run,
            "name": "answer",
            "parts": [{ "kind": "text", "text": text }],
        })
    };
    json!({
        "kind": "task",
        "id": run,
        "contextId": thread,
        "status": { "state": state },
        "artifacts": text.map(artifact).into_iter().collect::<Vec<_>>(),
    })
}

/// Describes the assistant that the query names.
async fn agent_card(
    State(manager): State<Arc<Manager>>,
    mut query: Query,
    headers: HeaderMap,
) -> ApiResult<Json<Value>> {
    let id = query.text("assistant_id")?;
    query.finish()?;
    let id =
        id.ok_or_else(|| ApiError::invalid("the query parameter `assistant_id` is missing"))?;
    let assistant = find_assistant(&manager.graphs, &manager.database, &id)?;
    let host = headers.get("host").and_then(|it| it.to_str().ok()).unwrap_or("localhost");
    let description = assistant
        .description
        .unwrap_or_else(|| format!("Runs the graph `{}`.", assistant.graph_id));
    Ok(Json(json!({
        "protocolVersion": "0.3.0",
        "name": assistant.name,
        "description": description,
        "url": format!("http://{host}/a2a/{}", assistant.assistant_id),
        "preferredTransport": "JSONRPC",
        "version": assistant.version.to_string(),
        "capabilities": { "streaming": false, "pushNotifications": false },
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{
            "id": assistant.graph_id,
            "name": assistant.name,
            "description": description,
            "tags": ["graph"],
        }],
    })))
}
