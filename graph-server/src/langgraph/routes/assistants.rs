//! Assistants: their details, drawings, schemas and subgraphs.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{Path, State},
    routing::get,
};
use graph_core::draw::DrawnKind;
use serde_json::{Map, Value, json};

use crate::langgraph::{
    assistants::find_assistant,
    drawing::drawing_json,
    error::{ApiError, ApiResult},
    manager::Manager,
    records::Assistant,
    request::query::Query,
};

pub(super) fn routes() -> Router<Arc<Manager>> {
    Router::new()
        .route("/assistants/{id}", get(read))
        .route("/assistants/{id}/graph", get(graph))
        .route("/assistants/{id}/schemas", get(schemas))
        .route("/assistants/{id}/subgraphs", get(subgraphs))
        .route("/assistants/{id}/subgraphs/{namespace}", get(subgraph))
}

async fn read(
    State(manager): State<Arc<Manager>>,
    Path(id): Path<String>,
) -> ApiResult<Json<Assistant>> {
    find_assistant(&manager.graphs, &manager.database, &id).map(Json)
}

/// Largest depth to which subgraphs are expanded.
const MAX_DEPTH: usize = 32;

async fn graph(
    State(manager): State<Arc<Manager>>,
    Path(id): Path<String>,
    mut query: Query,
) -> ApiResult<Json<Value>> {
    let xray = query.text("xray")?.map(|it| it.to_ascii_lowercase());
    query.finish()?;
    let assistant = find_assistant(&manager.graphs, &manager.database, &id)?;
    let depth = match xray.as_deref() {
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
    let mut schemas = schemas_json(&manager, &assistant)?;
    schemas["graph_id"] = json!(assistant.graph_id);
    Ok(Json(schemas))
}

fn schemas_json(manager: &Manager, assistant: &Assistant) -> ApiResult<Value> {
    let schemas = manager.graph(&assistant.graph_id)?.schemas();
    Ok(json!({
        "input_schema": schemas.input,
        "output_schema": schemas.output,
        "state_schema": schemas.state,
        "config_schema": schemas.context,
        "context_schema": schemas.context,
    }))
}

async fn subgraphs(
    State(manager): State<Arc<Manager>>,
    Path(id): Path<String>,
    mut query: Query,
) -> ApiResult<Json<Value>> {
    let recurse = query.flag("recurse")?;
    query.finish()?;
    subgraphs_json(&manager, &id, None, recurse).map(Json)
}

async fn subgraph(
    State(manager): State<Arc<Manager>>,
    Path((id, namespace)): Path<(String, String)>,
    mut query: Query,
) -> ApiResult<Json<Value>> {
    let recurse = query.flag("recurse")?;
    query.finish()?;
    subgraphs_json(&manager, &id, Some(&namespace), recurse).map(Json)
}

/// Returns the schemas of the subgraphs of an assistant by namespace. Nested namespaces are joined with `|`. A subgraph
/// has no schemas of its own, because its state type is not registered; its schemas are empty.
fn subgraphs_json(
    manager: &Manager,
    id: &str,
    namespace: Option<&str>,
    recurse: bool,
) -> ApiResult<Value> {
    let assistant = find_assistant(&manager.graphs, &manager.database, id)?;
    let depth = if recurse || namespace.is_some() { MAX_DEPTH } else { 0 };
    let drawing = manager.graph(&assistant.graph_id)?.drawing(depth);
    let subgraphs = drawing.nodes.iter().filter(|it| it.kind == DrawnKind::Subgraph);
    let names = subgraphs.map(|it| it.id.replace(':', "|"));
    let selected = names.filter(|name| namespace.is_none_or(|it| it == name));
    let empty = json!({
        "input_schema": {},
        "output_schema": {},
        "state_schema": {},
        "config_schema": {},
        "context_schema": {},
    });
    Ok(Value::Object(selected.map(|name| (name, empty.clone())).collect::<Map<_, _>>()))
}
