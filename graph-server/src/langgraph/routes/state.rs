//! States of threads: read, edit and history.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::Path,
    routing::{get, post},
};
use graph_core::HistoryFilter;
use serde::Deserialize;
use serde_json::{Value, json};

use super::threads;
use crate::langgraph::{
    access::Access,
    edit::{UpdateRequest, apply},
    error::{ApiError, ApiResult},
    id::{parse_checkpoint, parse_id, parse_namespace, wire_id},
    json_filter::contains_all,
    manager::Manager,
    position::Position,
    records::Thread,
    request::{
        body::{Body, object, or_default},
        checkpoint::CheckpointRef,
        history::HistoryRequest,
        page::Page,
        query::Query,
        state_fields::select_state,
    },
    state_json::{empty_state, state_json},
};

pub(super) fn routes() -> Router<Arc<Manager>> {
    Router::new()
        // The JavaScript SDK changes the metadata of a thread with this path too.
        .route("/threads/{id}/state", get(read).post(update).patch(threads::update))
        .route("/threads/{id}/state/checkpoint", post(read_checkpoint))
        .route("/threads/{id}/state/{checkpoint}", get(read_at))
        .route("/threads/{id}/history", post(history).get(short_history))
}

async fn read(
    Access(manager): Access,
    Path(id): Path<String>,
    query: Query,
) -> ApiResult<Json<Value>> {
    read_position(&manager, &id, None, query).await
}

async fn read_at(
    Access(manager): Access,
    Path((id, checkpoint)): Path<(String, String)>,
    query: Query,
) -> ApiResult<Json<Value>> {
    read_position(&manager, &id, Some(&checkpoint), query).await
}

async fn read_position(
    manager: &Manager,
    id: &str,
    checkpoint: Option<&str>,
    mut query: Query,
) -> ApiResult<Json<Value>> {
    let (subgraphs, fields) = (query.take_flag("subgraphs")?, query.take_list("select"));
    let namespace = query.take_text("checkpoint_ns")?.unwrap_or_default();
    query.finish()?;
    let thread = manager.thread(parse_id("thread", id)?).await?;
    let checkpoint = checkpoint.map(parse_checkpoint).transpose()?;
    let at = Position { namespace: parse_namespace(&namespace), checkpoint };
    let state = state_of(manager, &thread, &at, subgraphs).await?;
    select_state(&state, &fields).map(Json)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadCheckpoint {
    #[serde(deserialize_with = "object")]
    checkpoint: CheckpointRef,
    #[serde(default, deserialize_with = "or_default")]
    subgraphs: bool,
    #[serde(default, deserialize_with = "or_default")]
    select: Vec<String>,
}

async fn read_checkpoint(
    Access(manager): Access,
    Path(id): Path<String>,
    Body(body): Body<ReadCheckpoint>,
) -> ApiResult<Json<Value>> {
    let thread = manager.thread(parse_id("thread", &id)?).await?;
    let at = body.checkpoint.position()?;
    let state = state_of(&manager, &thread, &at, body.subgraphs).await?;
    select_state(&state, &body.select).map(Json)
}

/// Returns the state of a thread, or of one of its subgraphs.
async fn state_of(
    manager: &Manager,
    thread: &Thread,
    at: &Position,
    subgraphs: bool,
) -> ApiResult<Value> {
    let Some(graph) = thread.graph() else { return Ok(empty_state()) };
    let id = thread.thread_id;
    let state = manager.graph(graph)?.state(&id.to_string(), at, subgraphs).await?;
    match (state, at.checkpoint) {
        (Some(state), _) => Ok(state_json(id, &state, subgraphs)),
        (None, Some(checkpoint)) => {
            let checkpoint = wire_id(checkpoint);
            let detail = match at.namespace.as_str() {
                "" => format!("thread {id} has no checkpoint {checkpoint}"),
                namespace => {
                    format!("subgraph `{namespace}` of thread {id} has no checkpoint {checkpoint}")
                }
            };
            Err(ApiError::not_found(detail))
        }
        (None, None) => Ok(empty_state()),
    }
}

async fn update(
    Access(manager): Access,
    Path(id): Path<String>,
    Body(body): Body<UpdateRequest>,
) -> ApiResult<Json<Value>> {
    let thread = manager.thread(parse_id("thread", &id)?).await?;
    let (at, edit) = body.into_edit()?;
    let checkpoint = apply(&manager, &thread, &at, vec![vec![edit]]).await?;
    let at = Position { checkpoint: Some(checkpoint), ..at };
    let mut state = state_of(&manager, &thread, &at, false).await?;
    // Different clients read different forms of the reference.
    let (reference, id) = (state["checkpoint"].take(), state["checkpoint_id"].take());
    Ok(Json(json!({ "checkpoint": reference, "configurable": reference, "checkpoint_id": id })))
}

async fn short_history(
    Access(manager): Access,
    Path(id): Path<String>,
    mut query: Query,
) -> ApiResult<Json<Vec<Value>>> {
    let request = HistoryRequest {
        limit: query.take_number("limit")?,
        before: query.take_text("before")?.map(Value::String),
        select: query.take_list("select"),
        ..HistoryRequest::default()
    };
    query.finish()?;
    list_history(&manager, &id, &request).await.map(Json)
}

async fn history(
    Access(manager): Access,
    Path(id): Path<String>,
    Body(body): Body<HistoryRequest>,
) -> ApiResult<Json<Vec<Value>>> {
    list_history(&manager, &id, &body).await.map(Json)
}

async fn list_history(
    manager: &Manager,
    id: &str,
    request: &HistoryRequest,
) -> ApiResult<Vec<Value>> {
    let (page, before) = (Page::new(request.limit, None)?, request.before()?);
    let only = request.checkpoint.id()?;
    let thread = manager.thread(parse_id("thread", id)?).await?;
    let Some(graph) = thread.graph() else { return Ok(Vec::new()) };
    let metadata = &request.metadata;
    // The filters are applied after the history is read, so the limit cannot be applied while it is read.
    let is_filtered = only.is_some() || !metadata.is_empty();
    let mut filter = HistoryFilter::from((!is_filtered).then(|| page.limit()));
    if let Some(before) = before {
        filter = filter.before(before);
    }
    let (graph, namespace) = (manager.graph(graph)?, request.checkpoint.namespace());
    let states = graph.history(&thread.thread_id.to_string(), &namespace, filter).await?;
    let states = states.iter().filter(|it| only.is_none_or(|id| id == it.id));
    let states = states.map(|it| state_json(thread.thread_id, it, false));
    let matches =
        |state: &Value| state["metadata"].as_object().is_some_and(|it| contains_all(it, metadata));
    let found: Vec<_> = states.filter(matches).collect();
    page.of(found).iter().map(|it| select_state(it, &request.select)).collect()
}
