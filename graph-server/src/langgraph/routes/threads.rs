//! Threads: create, read, update, delete.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{Path, State},
    http::StatusCode,
    routing::{get, post},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::langgraph::{
    error::{ApiError, ApiResult},
    id::{new_id, parse_id},
    manager::Manager,
    records::{Thread, ThreadStatus},
    request::{
        body::{Body, or_default},
        config::Metadata,
    },
    time::now,
};

pub(super) fn routes() -> Router<Arc<Manager>> {
    Router::new()
        .route("/threads", post(create))
        .route("/threads/{id}", get(read).patch(update).delete(delete))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CreateThread {
    #[serde(default)]
    thread_id: Option<Uuid>,
    #[serde(default, deserialize_with = "or_default")]
    metadata: Metadata,
    #[serde(default, deserialize_with = "or_default")]
    if_exists: IfExists,
    #[serde(default)]
    graph_id: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum IfExists {
    #[default]
    Raise,
    DoNothing,
}

async fn create(
    State(manager): State<Arc<Manager>>,
    Body(body): Body<CreateThread>,
) -> ApiResult<Json<Thread>> {
    let id = body.thread_id.unwrap_or_else(new_id);
    if let Some(existing) = manager.database.get::<Thread>(&id.to_string())? {
        return match body.if_exists {
            IfExists::DoNothing => Ok(Json(existing)),
            IfExists::Raise => Err(ApiError::conflict(format!("thread {id} already exists"))),
        };
    }
    let mut metadata = body.metadata;
    if let Some(graph) = body.graph_id {
        manager.graph(&graph)?;
        metadata.insert("graph_id".to_owned(), json!(graph));
    }
    let thread = new_thread(id, metadata);
    manager.database.put(&thread)?;
    Ok(Json(thread))
}

/// Returns a thread that has never run.
pub(super) fn new_thread(thread_id: Uuid, metadata: Metadata) -> Thread {
    let now = now();
    Thread {
        thread_id,
        created_at: now.clone(),
        updated_at: now.clone(),
        state_updated_at: now,
        metadata,
        status: ThreadStatus::Idle,
        config: Value::Object(Map::new()),
        values: None,
        error: None,
        interrupts: Map::new(),
    }
}

async fn read(
    State(manager): State<Arc<Manager>>,
    Path(id): Path<String>,
) -> ApiResult<Json<Thread>> {
    manager.thread(parse_id("thread", &id)?).map(Json)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UpdateThread {
    #[serde(default, deserialize_with = "or_default")]
    metadata: Metadata,
}

async fn update(
    State(manager): State<Arc<Manager>>,
    Path(id): Path<String>,
    Body(body): Body<UpdateThread>,
) -> ApiResult<Json<Thread>> {
    let mut thread = manager.thread(parse_id("thread", &id)?)?;
    thread.metadata.extend(body.metadata);
    thread.updated_at = now();
    manager.database.put(&thread)?;
    Ok(Json(thread))
}

async fn delete(
    State(manager): State<Arc<Manager>>,
    Path(id): Path<String>,
) -> ApiResult<StatusCode> {
    let id = manager.thread(parse_id("thread", &id)?)?.thread_id;
    manager.delete_thread(id).await?;
    Ok(StatusCode::NO_CONTENT)
}
