//! Threads: search and count.

use std::{collections::BTreeMap, sync::Arc};

use axum::{Json, Router, response::Response, routing::post};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::langgraph::{
    access::Access,
    error::{ApiError, ApiResult},
    manager::Manager,
    records::{THREAD_FIELDS, THREAD_SORT_FIELDS, Thread, ThreadStatus},
    request::{
        body::{Body, or_default},
        config::Metadata,
        page::{Page, SortOrder, check_fields, select, sort_field},
    },
    storage::Search,
};

pub(super) fn routes() -> Router<Arc<Manager>> {
    Router::new().route("/threads/search", post(search)).route("/threads/count", post(count))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchThreads {
    #[serde(default, deserialize_with = "or_default")]
    metadata: Metadata,
    /// Excludes threads whose metadata matches one of these filters.
    exclude_metadata: Option<Exclusions>,
    #[serde(default, deserialize_with = "or_default")]
    values: Map<String, Value>,
    ids: Option<Vec<Uuid>>,
    status: Option<ThreadStatus>,
    limit: Option<usize>,
    offset: Option<usize>,
    sort_by: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    sort_order: SortOrder,
    #[serde(default, deserialize_with = "or_default")]
    select: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    extract: BTreeMap<String, String>,
}

/// A filter, or a list of filters.
#[derive(Deserialize)]
#[serde(untagged, expecting = "`exclude_metadata` must be an object or a list of objects")]
enum Exclusions {
    One(Metadata),
    Many(Vec<Metadata>),
}

impl Exclusions {
    fn filters(&self) -> &[Metadata] {
        match self {
            Self::One(filter) => std::slice::from_ref(filter),
            Self::Many(filters) => filters,
        }
    }
}

impl SearchThreads {
    /// Returns the threads on a page, and the total number of matching threads.
    async fn find(&self, manager: &Manager, page: Page) -> ApiResult<(Vec<Thread>, usize)> {
        check_fields(&self.select, &THREAD_FIELDS)?;
        let sort_by = sort_field(self.sort_by.as_deref(), &THREAD_SORT_FIELDS, "updated_at")?;
        let excluded = self.exclude_metadata.as_ref().map(Exclusions::filters);
        // An empty filter would match every thread.
        if excluded.is_some_and(|it| it.is_empty() || it.iter().any(Map::is_empty)) {
            let detail = "`exclude_metadata` must not be empty; leave it out to exclude no threads";
            return Err(ApiError::invalid(detail));
        }
        let ids = self.ids.as_ref().map(|it| it.iter().map(Uuid::to_string).collect::<Vec<_>>());
        let search = Search {
            ids: ids.as_deref(),
            status: self.status.map(ThreadStatus::name),
            metadata: Some(&self.metadata).filter(|it| !it.is_empty()),
            excluded: excluded.unwrap_or_default(),
            values: Some(&self.values).filter(|it| !it.is_empty()),
            ..page.search(sort_by, self.sort_order)
        };
        manager.database.search(&search).await
    }
}

async fn search(Access(manager): Access, Body(body): Body<SearchThreads>) -> ApiResult<Response> {
    let page = Page::new(body.limit, body.offset)?;
    let (found, total) = body.find(&manager, page).await?;
    let found = found.iter().map(|thread| {
        let mut shown = select(thread, &body.select, &THREAD_FIELDS)?;
        if !body.extract.is_empty() {
            shown["extracted"] = extract(&json!(thread), &body.extract)?;
        }
        Ok(shown)
    });
    Ok(page.respond(&found.collect::<ApiResult<Vec<_>>>()?, total))
}

async fn count(Access(manager): Access, Body(body): Body<SearchThreads>) -> ApiResult<Json<usize>> {
    Page::new(body.limit, body.offset)?;
    let (_, total) = body.find(&manager, Page::empty()).await?;
    Ok(Json(total))
}

/// Returns the values at paths such as `values.messages[-1].content`, by name. A path that does not exist yields null.
fn extract(thread: &Value, paths: &BTreeMap<String, String>) -> ApiResult<Value> {
    let entries = paths.iter().map(|(name, path)| Ok((name.clone(), value_at(thread, path)?)));
    Ok(Value::Object(entries.collect::<ApiResult<Map<_, _>>>()?))
}

fn value_at(value: &Value, path: &str) -> ApiResult<Value> {
    let invalid = || {
        ApiError::invalid(format!(
            "invalid path `{path}` in `extract`; use a path such as `values.messages[-1].content`"
        ))
    };
    let root = path.split(['.', '[']).next().unwrap_or_default();
    if !THREAD_FIELDS.contains(&root) {
        return Err(invalid());
    }
    let mut current = value;
    for part in path.split('.') {
        let (name, indexes) = part.split_once('[').map_or((part, ""), |(name, rest)| (name, rest));
        current = &current[name];
        for index in indexes.split('[').filter(|it| !it.is_empty()) {
            let index = index.strip_suffix(']').and_then(|it| it.parse::<i64>().ok());
            let index = index.ok_or_else(invalid)?;
            let items = current.as_array().map(Vec::as_slice).unwrap_or_default();
            let position = match index {
                0.. => usize::try_from(index).ok(),
                _ => usize::try_from(index.unsigned_abs())
                    .ok()
                    .and_then(|it| items.len().checked_sub(it)),
            };
            current = position.and_then(|it| items.get(it)).unwrap_or(&Value::Null);
        }
    }
    Ok(current.clone())
}
