//! States of threads: read, edit and history.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::Path,
    routing::{get, post},
};
use graph_core::{HistoryFilter, checkpoint::CheckpointId};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::langgraph::{
    access::Access,
    edit::{UpdateRequest, apply},
    error::{ApiError, ApiResult},
    id::{parse_checkpoint, parse_id, wire_id},
    manager::Manager,
    records::Thread,
    request::{
        body::{Body, object, or_default},
        checkpoint::CheckpointRef,
        history::HistoryRequest,
        page::{Page, contains_all},
        query::Query,
        state_fields::select_state,
    },
    state_json::{empty_state, find_subgraph, state_json},
};

pub(super) fn routes() -> Router<Arc<Manager>> {
    Router::new()
        .route("/threads/{id}/state", get(read).post(update))
        .route("/threads/{id}/state/checkpoint", post(read_checkpoint))
        .route("/threads/{id}/state/{checkpoint}", get(read_at))
        .route("/threads/{id}/history", post(history).get(short_history))
}

async fn read(
    Access(manager): Access,
    Path(id): Path<String>,
    mut query: Query,
) -> ApiResult<Json<Value>> {
    let (subgraphs, fields) = (query.flag("subgraphs")?, query.list("select"));
    query.finish()?;
    let thread = manager.thread(parse_id("thread", &id)?).await?;
    let state = state_of(&manager, &thread, None, "", subgraphs).await?;
    select_state(&state, &fields).map(Json)
}

async fn read_at(
    Access(manager): Access,
    Path((id, checkpoint)): Path<(String, String)>,
    mut query: Query,
) -> ApiResult<Json<Value>> {
    let (subgraphs, fields) = (query.flag("subgraphs")?, query.list("select"));
    query.finish()?;
    let thread = manager.thread(parse_id("thread", &id)?).await?;
    let at = Some(parse_checkpoint(&checkpoint)?);
    let state = state_of(&manager, &thread, at, "", subgraphs).await?;
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
    let (at, namespace) = (body.checkpoint.id()?, body.checkpoint.namespace());
    let state = state_of(&manager, &thread, at, &namespace, body.subgraphs).await?;
    select_state(&state, &body.select).map(Json)
}

/// Returns the state of a thread, or of one of its subgraphs.
async fn state_of(
    manager: &Manager,
    thread: &Thread,
    at: Option<CheckpointId>,
    namespace: &str,
    subgraphs: bool,
) -> ApiResult<Value> {
    let Some(graph) = thread.graph() else { return Ok(empty_state()) };
    let id = thread.thread_id;
    let graph = manager.graph(graph)?;
    if at.is_some() && !namespace.is_empty() {
        let detail = "only the latest state of a subgraph is available; leave out `checkpoint_id`";
        return Err(ApiError::invalid(detail));
    }
    // A subgraph is found through the state of its parent.
    let subgraphs = subgraphs || !namespace.is_empty();
    let state = graph.state(&id.to_string(), at, subgraphs).await?;
    match (state, at) {
        (Some(state), _) if namespace.is_empty() => Ok(state_json(id, &state)),
        (Some(state), _) => find_subgraph(id, &state, namespace).ok_or_else(|| {
            ApiError::not_found(format!("thread {id} has no pending subgraph `{namespace}`"))
        }),
        (None, Some(at)) => {
            let detail = format!("thread {id} has no checkpoint {}", wire_id(at));
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
    let checkpoint = apply(&manager, &thread, at, vec![vec![edit]]).await?;
    Ok(Json(reference(thread.thread_id, checkpoint)))
}

/// Returns a reference to a checkpoint, in the forms that different clients read.
fn reference(thread: Uuid, checkpoint: CheckpointId) -> Value {
    let id = wire_id(checkpoint);
    let reference = json!({ "thread_id": thread, "checkpoint_ns": "", "checkpoint_id": id });
    json!({ "checkpoint": reference, "configurable": reference, "checkpoint_id": id })
}

async fn short_history(
    Access(manager): Access,
    Path(id): Path<String>,
    mut query: Query,
) -> ApiResult<Json<Vec<Value>>> {
    let (limit, before) = (query.number("limit")?, query.text("before")?);
    let fields = query.list("select");
    query.finish()?;
    let before = before.as_deref().map(parse_checkpoint).transpose()?;
    list_history(&manager, &id, limit, before, &Map::new(), &fields).await.map(Json)
}

async fn history(
    Access(manager): Access,
    Path(id): Path<String>,
    Body(body): Body<HistoryRequest>,
) -> ApiResult<Json<Vec<Value>>> {
    if !body.checkpoint.namespace().is_empty() {
        let detail = "the history of a subgraph is not available; leave out `checkpoint`";
        return Err(ApiError::invalid(detail));
    }
    let before = body.before()?;
    list_history(&manager, &id, body.limit, before, &body.metadata, &body.select).await.map(Json)
}

async fn list_history(
    manager: &Manager,
    id: &str,
    limit: Option<usize>,
    before: Option<CheckpointId>,
    metadata: &Map<String, Value>,
    fields: &[String],
) -> ApiResult<Vec<Value>> {
    let page = Page::new(limit, None)?;
    let thread = manager.thread(parse_id("thread", id)?).await?;
    let Some(graph) = thread.graph() else { return Ok(Vec::new()) };
    // A filter by metadata can skip checkpoints, so it needs all of them.
    let mut filter = HistoryFilter::from(metadata.is_empty().then(|| page.limit()));
    if let Some(before) = before {
        filter = filter.before(before);
    }
    let states = manager.graph(graph)?.history(&thread.thread_id.to_string(), filter).await?;
    let states = states.iter().map(|it| state_json(thread.thread_id, it));
    let matches =
        |state: &Value| state["metadata"].as_object().is_some_and(|it| contains_all(it, metadata));
    let found: Vec<_> = states.filter(matches).collect();
    page.of(found).iter().map(|it| select_state(it, fields)).collect()
}
