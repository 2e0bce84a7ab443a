//! Threads: create, read, update, delete.

use std::{collections::BTreeSet, sync::Arc};

use axum::{
    Json, Router,
    extract::Path,
    http::{HeaderMap, HeaderValue, StatusCode},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use graph_core::checkpoint::Keep;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::langgraph::{
    access::Access,
    edit::{Superstep, apply},
    error::{ApiError, ApiResult},
    id::{new_id, parse_id},
    manager::Manager,
    position::Position,
    records::{Thread, ThreadTtl},
    request::{
        body::{Body, or_default},
        config::Metadata,
        query::Query,
        ttl::TtlRequest,
    },
    time::now,
};

pub(super) fn routes() -> Router<Arc<Manager>> {
    Router::new()
        .route("/threads", post(create))
        .route("/threads/{id}", get(read).patch(update).delete(delete))
        .route("/threads/{id}/copy", post(copy))
        .route("/threads/prune", post(prune))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CreateThread {
    thread_id: Option<Uuid>,
    #[serde(default, deserialize_with = "or_default")]
    metadata: Metadata,
    #[serde(default, deserialize_with = "or_default")]
    if_exists: IfExists,
    graph_id: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    supersteps: Vec<Superstep>,
    ttl: Option<TtlRequest>,
}

/// Handling of a request whose id is already in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum IfExists {
    #[default]
    Raise,
    DoNothing,
}

impl IfExists {
    /// Answers a request to create a thread that exists.
    fn answer(self, existing: Thread) -> ApiResult<Json<Thread>> {
        match self {
            Self::DoNothing => Ok(Json(existing)),
            Self::Raise => Err(ApiError::conflict(format!(
                "thread {} already exists; use another id, or set `if_exists` to `do_nothing`",
                existing.thread_id
            ))),
        }
    }
}

async fn create(
    Access(manager): Access,
    Body(body): Body<CreateThread>,
) -> ApiResult<Json<Thread>> {
    let id = body.thread_id.unwrap_or_else(new_id);
    let mut metadata = body.metadata;
    if let Some(graph) = body.graph_id {
        manager.graph(&graph)?;
        metadata.insert("graph_id".to_owned(), json!(graph));
    }
    manager.database.view().add_required::<Thread>(&mut metadata);
    let steps = body.supersteps.into_iter().map(Superstep::into_edits);
    let steps = steps.collect::<ApiResult<Vec<_>>>()?;
    let ttl = body.ttl.map(|it| it.start(id)).transpose()?;
    let thread = Thread::new(id, metadata);
    if let Some(existing) = manager.create_thread(&thread).await? {
        return body.if_exists.answer(existing);
    }
    if let Some(ttl) = ttl {
        manager.set_ttl(&ttl).await?;
    }
    if steps.is_empty() {
        return Ok(Json(thread));
    }
    if let Err(error) = apply(&manager, &thread, &Position::HEAD, steps).await {
        manager.delete_thread(id).await?;
        return Err(error);
    }
    manager.thread(id).await.map(Json)
}

async fn read(
    Access(manager): Access,
    Path(id): Path<String>,
    mut query: Query,
) -> ApiResult<Json<Value>> {
    let include = query.take_list("include");
    query.finish()?;
    let thread = manager.thread(parse_id("thread", &id)?).await?;
    let mut shown = json!(thread);
    for field in include.iter().flat_map(|it| it.split(',')) {
        if field != "ttl" {
            let detail = format!("cannot include `{field}`; the only field is `ttl`");
            return Err(ApiError::invalid(detail));
        }
        let ttl = manager.database.get::<ThreadTtl>(&thread.thread_id.to_string()).await?;
        shown["ttl"] = ttl.map_or(Value::Null, |ttl| {
            json!({
                "strategy": ttl.strategy,
                "ttl_minutes": ttl.ttl_minutes,
                "expires_at": ttl.expires_at,
            })
        });
    }
    Ok(Json(shown))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UpdateThread {
    #[serde(default, deserialize_with = "or_default")]
    metadata: Metadata,
    ttl: Option<TtlRequest>,
}

pub(super) async fn update(
    Access(manager): Access,
    Path(id): Path<String>,
    headers: HeaderMap,
    Body(body): Body<UpdateThread>,
) -> ApiResult<Response> {
    let id = parse_id("thread", &id)?;
    let ttl = body.ttl.map(|it| it.start(id)).transpose()?;
    let changed = manager
        .change_thread(id, |thread| {
            thread.metadata.extend(body.metadata.clone());
            manager.database.view().add_required::<Thread>(&mut thread.metadata);
            thread.updated_at = now();
        })
        .await?;
    if let Some(ttl) = ttl {
        manager.set_ttl(&ttl).await?;
    }
    if !prefers_minimal(&headers) {
        return Ok(Json(changed).into_response());
    }
    let applied = [("preference-applied", HeaderValue::from_static(MINIMAL))];
    Ok((StatusCode::NO_CONTENT, applied).into_response())
}

/// Preference of a client that does not need the changed thread.
const MINIMAL: &str = "return=minimal";

/// Returns whether a client prefers a minimal response, as in RFC 7240: only the first preference of a name counts.
fn prefers_minimal(headers: &HeaderMap) -> bool {
    let values = headers.get_all("prefer").iter().filter_map(|it| it.to_str().ok());
    let found = values.flat_map(preferences).find(|(name, _)| name.eq_ignore_ascii_case("return"));
    found.is_some_and(|(_, value)| value.eq_ignore_ascii_case("minimal"))
}

/// Returns the names and values of the preferences in a header, without their parameters.
fn preferences(header: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut is_quoted = false;
    let is_end = move |it: char| {
        is_quoted ^= it == '"';
        it == ',' && !is_quoted
    };
    header.split(is_end).map(|it| {
        let preference = it.split(';').next().unwrap_or_default();
        let (name, value) = preference.split_once('=').unwrap_or((preference, ""));
        (name.trim(), value.trim().trim_matches('"'))
    })
}

async fn delete(Access(manager): Access, Path(id): Path<String>) -> ApiResult<StatusCode> {
    let id = manager.thread(parse_id("thread", &id)?).await?.thread_id;
    manager.delete_thread(id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Copies a thread with all its checkpoints.
async fn copy(Access(manager): Access, Path(id): Path<String>) -> ApiResult<Json<Thread>> {
    let id = parse_id("thread", &id)?;
    let _lock = manager.lock_metadata(id).await?;
    let original = manager.thread(id).await?;
    if manager.is_busy(original.thread_id).await? {
        let detail = "the thread is busy: a run is in progress; wait for it or cancel it";
        return Err(ApiError::conflict(detail));
    }
    let now = now();
    let thread = Thread {
        thread_id: new_id(),
        created_at: now.clone(),
        updated_at: now,
        ..original.clone()
    };
    if original.values.is_some() {
        let (from, to) = (original.thread_id.to_string(), thread.thread_id.to_string());
        manager.graphs.checkpointer().copy_thread(&from, &to).await?;
    }
    manager.database.put(&thread).await?;
    Ok(Json(thread))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PruneThreads {
    thread_ids: BTreeSet<Uuid>,
    #[serde(default, deserialize_with = "or_default")]
    strategy: PruneStrategy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PruneStrategy {
    /// Deletes the threads.
    #[default]
    Delete,
    /// Deletes all checkpoints but the latest.
    KeepLatest,
}

async fn prune(Access(manager): Access, Body(body): Body<PruneThreads>) -> ApiResult<Json<Value>> {
    let mut pruned = Vec::new();
    for id in body.thread_ids {
        if manager.database.get::<Thread>(&id.to_string()).await?.is_some() {
            pruned.push(id);
        }
    }
    match body.strategy {
        PruneStrategy::Delete => {
            for id in &pruned {
                manager.delete_thread(*id).await?;
            }
        }
        PruneStrategy::KeepLatest => {
            for id in &pruned {
                let _lock = manager.lock_metadata(*id).await?;
                let name = id.to_string();
                let checkpointer = manager.graphs.checkpointer();
                checkpointer.prune(std::slice::from_ref(&name), Keep::Newest(1)).await?;
            }
        }
    }
    Ok(Json(json!({ "pruned_count": pruned.len() })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preferences_are_read_in_all_their_forms() {
        let is_minimal = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for &value in values {
                headers.append("prefer", HeaderValue::from_static(value));
            }
            prefers_minimal(&headers)
        };
        assert!(is_minimal(&["return=minimal"]));
        assert!(is_minimal(&["respond-async, Return = \"minimal\"; a=1"]));
        assert!(is_minimal(&["wait=10", "return=minimal"]));
        assert!(!is_minimal(&[]));
        assert!(!is_minimal(&["return=representation, return=minimal"]));
        assert!(!is_minimal(&["other=\"a, return=minimal\""]));
        assert!(!is_minimal(&["other; return=minimal"]));
    }
}
