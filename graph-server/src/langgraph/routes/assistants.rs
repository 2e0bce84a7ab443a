//! Assistants: search, details, drawings and schemas.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{Path, State},
    routing::get,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::langgraph::{
    assistants::find_assistant,
    drawing::drawing_json,
    error::{ApiError, ApiResult},
    manager::Manager,
    records::Assistant,
    request::body::Query,
};

pub(super) fn routes() -> Router<Arc<Manager>> {
    Router::new()
        .route("/assistants/{id}", get(read))
        .route("/assistants/{id}/graph", get(graph))
        .route("/assistants/{id}/schemas", get(schemas))
}

async fn read(
    State(manager): State<Arc<Manager>>,
    Path(id): Path<String>,
) -> ApiResult<Json<Assistant>> {
    find_assistant(&manager.graphs, &manager.database, &id).map(Json)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GraphQuery {
    #[serde(default)]
    xray: Option<String>,
}

/// Largest depth to which subgraphs are expanded.
const MAX_DEPTH: usize = 32;

async fn graph(
    State(manager): State<Arc<Manager>>,
    Path(id): Path<String>,
    Query(query): Query<GraphQuery>,
) -> ApiResult<Json<Value>> {
    let assistant = find_assistant(&manager.graphs, &manager.database, &id)?;
    let depth = match query.xray.as_deref().map(str::to_ascii_lowercase).as_deref() {
        None | Some("false") => 0,
        Some("true") => MAX_DEPTH,
        Some(depth) => depth.parse::<usize>().map(|it| it.min(MAX_DEPTH)).map_err(|_| {
            ApiError::invalid("`xray` must be `true`, `false` or a number of levels")
        })?,
    };
    Ok(Json(drawing_json(&manager.graph(&assistant.graph_id)?.drawing(depth))))
}

async fn schemas(
    State(manager): State<Arc<Manager>>,
    Path(id): Path<String>,
) -> ApiResult<Json<Value>> {
    let assistant = find_assistant(&manager.graphs, &manager.database, &id)?;
    let schemas = manager.graph(&assistant.graph_id)?.schemas();
    Ok(Json(json!({
        "graph_id": assistant.graph_id,
        "input_schema": schemas.input,
        "output_schema": schemas.output,
        "state_schema": schemas.state,
        "config_schema": schemas.context,
        "context_schema": schemas.context,
    })))
}
