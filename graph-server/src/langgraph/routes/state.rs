//! States of threads.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{Path, State},
    routing::get,
};
use serde::Deserialize;
use serde_json::Value;

use crate::langgraph::{
    error::ApiResult,
    id::parse_id,
    manager::Manager,
    request::body::{Query, flag},
    state_json::{empty_state, state_json},
};

pub(super) fn routes() -> Router<Arc<Manager>> {
    Router::new().route("/threads/{id}/state", get(read))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StateQuery {
    #[serde(default, deserialize_with = "flag")]
    subgraphs: bool,
}

async fn read(
    State(manager): State<Arc<Manager>>,
    Path(id): Path<String>,
    Query(query): Query<StateQuery>,
) -> ApiResult<Json<Value>> {
    let thread = manager.thread(parse_id("thread", &id)?)?;
    let Some(graph) = thread.graph() else { return Ok(Json(empty_state())) };
    let graph = manager.graph(graph)?;
    let state = graph.state(&thread.thread_id.to_string(), None, query.subgraphs).await?;
    Ok(Json(state.map_or_else(empty_state, |it| state_json(thread.thread_id, &it))))
}
