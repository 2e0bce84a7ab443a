//! Assistants: their details, drawings, schemas and subgraphs.

use std::sync::Arc;

use axum::{Json, Router, extract::Path, routing::get};
use graph_core::draw::DrawnKind;
use serde_json::{Map, Value, json};

use crate::langgraph::{
    access::Access,
    assistants::find_assistant,
    drawing::drawing_json,
    error::{ApiError, ApiResult},
    manager::Manager,
    records::Assistant,
    request::query::Query,
    schemas::Schemas,
};

pub(super) fn routes() -> Router<Arc<Manager>> {
    Router::new()
        .route("/assistants/{id}", get(read))
        .route("/assistants/{id}/graph", get(graph))
        .route("/assistants/{id}/schemas", get(schemas))
        .route("/assistants/{id}/subgraphs", get(subgraphs))
        .route("/assistants/{id}/subgraphs/{namespace}", get(subgraph))
}

async fn read(Access(manager): Access, Path(id): Path<String>) -> ApiResult<Json<Assistant>> {
    find_assistant(&manager.graphs, &manager.database, &id).await.map(Json)
}

/// Largest depth to which subgraphs are expanded.
const MAX_DEPTH: usize = 32;

async fn graph(
    Access(manager): Access,
    Path(id): Path<String>,
    mut query: Query,
) -> ApiResult<Json<Value>> {
    let xray = query.take_text("xray")?.map(|it| it.to_ascii_lowercase());
    query.finish()?;
    let assistant = find_assistant(&manager.graphs, &manager.database, &id).await?;
    let depth = match xray.as_deref() {
        None | Some("false") => 0,
        Some("true") => MAX_DEPTH,
        Some(depth) => depth.parse::<usize>().map(|it| it.min(MAX_DEPTH)).map_err(|_| {
            let detail =
                format!("`xray` is `{depth}`; it must be `true`, `false` or a number of levels");
            ApiError::invalid(detail)
        })?,
    };
    Ok(Json(drawing_json(&manager.graph(&assistant.graph_id)?.drawing(depth))))
}

async fn schemas(Access(manager): Access, Path(id): Path<String>) -> ApiResult<Json<Value>> {
    let assistant = find_assistant(&manager.graphs, &manager.database, &id).await?;
    let mut schemas = schemas_json(manager.graph(&assistant.graph_id)?.schemas());
    schemas["graph_id"] = json!(assistant.graph_id);
    Ok(Json(schemas))
}

fn schemas_json(schemas: &Schemas) -> Value {
    json!({
        "input_schema": schemas.input,
        "output_schema": schemas.output,
        "state_schema": schemas.state,
        "config_schema": schemas.context,
        "context_schema": schemas.context,
    })
}

async fn subgraphs(
    Access(manager): Access,
    Path(id): Path<String>,
    mut query: Query,
) -> ApiResult<Json<Value>> {
    let recurse = query.take_flag("recurse")?;
    query.finish()?;
    subgraphs_json(&manager, &id, None, recurse).await.map(Json)
}

async fn subgraph(
    Access(manager): Access,
    Path((id, namespace)): Path<(String, String)>,
    mut query: Query,
) -> ApiResult<Json<Value>> {
    let recurse = query.take_flag("recurse")?;
    query.finish()?;
    subgraphs_json(&manager, &id, Some(&namespace), recurse).await.map(Json)
}

/// Returns the schemas of the subgraphs of an assistant by namespace. The names of nested subgraphs are joined with
/// `|`. A subgraph whose schemas were not registered has null schemas.
async fn subgraphs_json(
    manager: &Manager,
    id: &str,
    namespace: Option<&str>,
    recurse: bool,
) -> ApiResult<Value> {
    let assistant = find_assistant(&manager.graphs, &manager.database, id).await?;
    let depth = if recurse || namespace.is_some() { MAX_DEPTH } else { 0 };
    let graph = manager.graph(&assistant.graph_id)?;
    let (drawing, schemas) = (graph.drawing(depth), graph.schemas());
    let subgraphs = drawing.nodes.iter().filter(|it| it.kind == DrawnKind::Subgraph);
    let names = subgraphs.map(|it| it.id.replace(':', "|"));
    let selected = names.filter(|name| namespace.is_none_or(|it| it == name));
    let unknown = Schemas::default();
    let with_schemas = selected.map(|name| {
        let own = schemas.subgraphs.get(&name).unwrap_or(&unknown);
        (name, schemas_json(own))
    });
    Ok(Value::Object(with_schemas.collect::<Map<_, _>>()))
}
