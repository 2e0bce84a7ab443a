//! Assistants: search and count.

use std::sync::Arc;

use axum::{Json, Router, response::Response, routing::post};
use serde::Deserialize;
use serde_json::{Map, json};

use crate::langgraph::{
    access::Access,
    error::ApiResult,
    manager::Manager,
    records::{ASSISTANT_FIELDS, ASSISTANT_SORT_FIELDS, Assistant},
    request::{
        body::{Body, or_default},
        config::Metadata,
        page::{Page, SortOrder, check_fields, select, sort_field},
    },
    storage::Search,
};

pub(super) fn routes() -> Router<Arc<Manager>> {
    Router::new().route("/assistants/search", post(search)).route("/assistants/count", post(count))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchAssistants {
    #[serde(default, deserialize_with = "or_default")]
    metadata: Metadata,
    graph_id: Option<String>,
    name: Option<String>,
    limit: Option<usize>,
    offset: Option<usize>,
    sort_by: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    sort_order: SortOrder,
    #[serde(default, deserialize_with = "or_default")]
    select: Vec<String>,
}

impl SearchAssistants {
    /// Returns the assistants on a page, and the total number of matching assistants.
    async fn find(&self, manager: &Manager, page: Page) -> ApiResult<(Vec<Assistant>, usize)> {
        check_fields(&self.select, &ASSISTANT_FIELDS)?;
        let sort_by = sort_field(self.sort_by.as_deref(), &ASSISTANT_SORT_FIELDS, "created_at")?;
        let graph = self.graph_id.as_ref();
        let fields = graph.map(|it| Map::from_iter([("graph_id".to_owned(), json!(it))]));
        let search = Search {
            fields: fields.as_ref(),
            name: self.name.as_deref(),
            metadata: Some(&self.metadata).filter(|it| !it.is_empty()),
            ..page.search(sort_by, self.sort_order)
        };
        manager.database.search(&search).await
    }
}

async fn search(
    Access(manager): Access,
    Body(body): Body<SearchAssistants>,
) -> ApiResult<Response> {
    let page = Page::new(body.limit, body.offset)?;
    let (found, total) = body.find(&manager, page).await?;
    let found = found.iter().map(|it| select(it, &body.select, &ASSISTANT_FIELDS));
    Ok(page.respond(&found.collect::<ApiResult<Vec<_>>>()?, total))
}

async fn count(
    Access(manager): Access,
    Body(body): Body<SearchAssistants>,
) -> ApiResult<Json<usize>> {
    Page::new(body.limit, body.offset)?;
    let (_, total) = body.find(&manager, Page::empty()).await?;
    Ok(Json(total))
}
