//! The long-term store that all graphs share: put, get, delete, search, list namespaces.

use std::{sync::Arc, time::Duration};

use axum::{
    Json, Router,
    http::StatusCode,
    routing::{get, post},
};
use graph_core::store::{Filter, Get, Item, ListNamespaces, Put, Search, StoreError};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::langgraph::{
    access::Access,
    error::{ApiError, ApiResult},
    manager::Manager,
    request::{
        body::{Body, or_default},
        page::check_offset,
        query::Query,
    },
    store_area::{StoreArea, split},
    time::wire_time,
};

pub(super) fn routes() -> Router<Arc<Manager>> {
    Router::new()
        .route("/store/items", get(read).put(put).delete(delete))
        .route("/store/items/search", post(search))
        .route("/store/namespaces", post(namespaces))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PutItem {
    namespace: Vec<String>,
    key: String,
    value: Value,
    index: Option<IndexedFields>,
    /// Lifetime of the item, in minutes.
    ttl: Option<f64>,
}

/// Fields that can be found by a query: `false` for none, or a list of paths.
#[derive(Deserialize)]
#[serde(untagged, expecting = "`index` must be `false` or a list of field paths")]
enum IndexedFields {
    Default(bool),
    Paths(Vec<String>),
}

async fn put(Access(manager): Access, Body(body): Body<PutItem>) -> ApiResult<StatusCode> {
    let namespace = manager.database.view().store_area().of_item(body.namespace);
    let mut put = Put::new(&namespace, &body.key, body.value)?;
    put = match body.index {
        None | Some(IndexedFields::Default(true)) => put,
        Some(IndexedFields::Default(false)) => put.without_index(),
        Some(IndexedFields::Paths(paths)) => {
            put.index(&paths.iter().map(String::as_str).collect::<Vec<_>>())?
        }
    };
    if let Some(minutes) = body.ttl {
        let lifetime = Duration::try_from_secs_f64(minutes * 60.0).ok().filter(|it| !it.is_zero());
        put = put.ttl(lifetime.ok_or_else(|| {
            ApiError::invalid(format!(
                "`ttl` is {minutes}; it must be a positive number of minutes"
            ))
        })?);
    }
    manager.graphs.store().put_item(put).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Whether a read restarts the lifetime of an item.
#[derive(Deserialize)]
enum Refresh {
    #[serde(rename = "true", alias = "True")]
    Restart,
    #[serde(rename = "false", alias = "False")]
    Keep,
}

async fn read(Access(manager): Access, mut query: Query) -> ApiResult<Json<Option<Value>>> {
    let missing = |name| ApiError::invalid(format!("the query parameter `{name}` is missing"));
    let namespace = query.take_text("namespace")?.ok_or_else(|| missing("namespace"))?;
    let key = query.take_text("key")?.ok_or_else(|| missing("key"))?;
    let refresh = query.take_choice::<Refresh>("refresh_ttl")?;
    query.finish()?;
    let area = manager.database.view().store_area();
    let labels = area.of_item(split(&namespace));
    let mut request = Get::new(&labels.iter().map(String::as_str).collect::<Vec<_>>(), &key)?;
    request.refresh_ttl = refresh.map(|it| matches!(it, Refresh::Restart));
    let item = manager.graphs.store().get_item(request).await?;
    Ok(Json(item.map(|it| item_json(&it, &area))))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeleteItem {
    namespace: Vec<String>,
    key: String,
}

async fn delete(Access(manager): Access, Body(body): Body<DeleteItem>) -> ApiResult<StatusCode> {
    let labels = manager.database.view().store_area().of_item(body.namespace);
    let labels: Vec<_> = labels.iter().map(String::as_str).collect();
    manager.graphs.store().delete(&labels, &body.key).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchItems {
    #[serde(default, deserialize_with = "or_default")]
    namespace_prefix: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    filter: Map<String, Value>,
    limit: Option<usize>,
    offset: Option<usize>,
    query: Option<String>,
    refresh_ttl: Option<bool>,
}

async fn search(Access(manager): Access, Body(body): Body<SearchItems>) -> ApiResult<Json<Value>> {
    let filter = Filter::parse(&Value::Object(body.filter)).map_err(StoreError::from)?;
    let area = manager.database.view().store_area();
    let mut search = match area.inside(body.namespace_prefix).as_slice() {
        [] => Search::everything(),
        prefix => Search::under(prefix)?,
    };
    search = search.filter(filter).offset(check_offset(body.offset)?);
    search.refresh_ttl = body.refresh_ttl;
    if let Some(limit) = body.limit {
        search = search.limit(limit);
    }
    if let Some(query) = body.query {
        search = search.query(query);
    }
    let items = manager.graphs.store().search(search).await?;
    let items: Vec<_> = items.iter().map(|it| with_score(item_json(it, &area), it.score)).collect();
    Ok(Json(json!({ "items": items })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamespaceQuery {
    #[serde(default, deserialize_with = "or_default")]
    prefix: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    suffix: Vec<String>,
    max_depth: Option<usize>,
    limit: Option<usize>,
    offset: Option<usize>,
}

async fn namespaces(
    Access(manager): Access,
    Body(body): Body<NamespaceQuery>,
) -> ApiResult<Json<Value>> {
    let mut list = ListNamespaces::new().offset(check_offset(body.offset)?);
    let area = manager.database.view().store_area();
    let prefix = area.inside(body.prefix);
    if !prefix.is_empty() {
        list = list.prefix(&prefix)?;
    }
    if !body.suffix.is_empty() {
        list = list.suffix(&body.suffix)?;
    }
    if let Some(depth) = body.max_depth {
        list = list.max_depth(depth.saturating_add(area.hidden_depth()));
    }
    if let Some(limit) = body.limit {
        list = list.limit(limit);
    }
    let found = manager.graphs.store().list_namespaces(list).await?;
    let found: Vec<_> = found.iter().map(|it| area.outside(it.labels())).collect();
    Ok(Json(json!({ "namespaces": found })))
}

fn item_json(item: &Item, area: &StoreArea) -> Value {
    json!({
        "namespace": area.outside(item.namespace.labels()),
        "key": item.key,
        "value": item.value,
        "created_at": wire_time(item.created_at),
        "updated_at": wire_time(item.updated_at),
    })
}

fn with_score(mut item: Value, score: Option<f32>) -> Value {
    item["score"] = json!(score);
    item
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Backend(_) | StoreError::Embed(_) => Self::internal(&error),
            // LangGraph's server answers these errors with status 400.
            StoreError::EmptyNamespace
            | StoreError::ReservedRoot { .. }
            | StoreError::Filter(_) => Self::bad_request(error.to_string()),
            other => Self::invalid(other.to_string()),
        }
    }
}
