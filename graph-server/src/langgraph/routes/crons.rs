//! Crons: runs that are started on a schedule.

mod schedule;
mod timer;

use std::{sync::Arc, time::SystemTime};

use axum::{
    Json, Router,
    extract::Path,
    http::StatusCode,
    response::Response,
    routing::{get, post},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

pub(in crate::langgraph) use self::timer::start_timer;
use self::{
    schedule::{next_date, parse_time},
    timer::run_request,
};
use crate::langgraph::{
    access::Access,
    assistants::find_assistant,
    error::{ApiError, ApiResult},
    id::{new_id, parse_id},
    manager::Manager,
    records::{CRON_FIELDS, CRON_SORT_FIELDS, Cron, Thread},
    request::{
        body::{Body, nullable, or_default},
        config::Metadata,
        page::{Page, SortOrder, check_fields, select, sort_field},
    },
    storage::Search,
    time::now,
};

pub(super) fn routes() -> Router<Arc<Manager>> {
    Router::new()
        .route("/runs/crons", post(create))
        .route("/threads/{thread}/runs/crons", post(create_for_thread))
        .route("/runs/crons/search", post(search))
        .route("/runs/crons/count", post(count))
        .route("/runs/crons/{id}", get(read).patch(update).delete(delete))
}

/// Fields of a cron that are not parameters of its runs.
#[derive(Deserialize)]
struct Settings {
    schedule: Option<String>,
    timezone: Option<String>,
    /// End time of the cron. Null removes it.
    #[serde(default, deserialize_with = "nullable")]
    end_time: Option<Option<String>>,
    enabled: Option<bool>,
    on_run_completed: Option<String>,
    /// Metadata that is merged into the cron's metadata.
    #[serde(default, deserialize_with = "or_default")]
    metadata: Metadata,
    /// Parameters of the runs, validated like the body of a request to create a run.
    #[serde(flatten)]
    payload: Map<String, Value>,
}

async fn create(Access(manager): Access, Body(body): Body<Settings>) -> ApiResult<Json<Cron>> {
    create_cron(&manager, None, body).await
}

async fn create_for_thread(
    Access(manager): Access,
    Path(thread): Path<String>,
    Body(body): Body<Settings>,
) -> ApiResult<Json<Cron>> {
    let thread = manager.thread(parse_id("thread", &thread)?).await?.thread_id;
    // The cron belongs to the owner of its thread, even if an admin creates it.
    let owner = manager.database.owner_of::<Thread>(&thread.to_string()).await?.flatten();
    let view = manager.database.view().clone().creating_for(owner.as_deref());
    create_cron(&manager.with_view(view), Some(thread), body).await
}

async fn create_cron(
    manager: &Arc<Manager>,
    thread: Option<Uuid>,
    body: Settings,
) -> ApiResult<Json<Cron>> {
    let assistant = body.payload.get("assistant_id").and_then(Value::as_str);
    let assistant = assistant.ok_or_else(|| {
        ApiError::invalid("`assistant_id` is missing; set it to an assistant id or a graph name")
    })?;
    // As in LangGraph, the response to an unknown graph has the status 404 here, but 422 for requests that create runs.
    if Uuid::try_parse(assistant).is_err() {
        manager.graph(assistant)?;
    }
    let assistant = find_assistant(&manager.graphs, &manager.database, assistant).await?;
    if body.schedule.is_none() {
        return Err(ApiError::invalid("`schedule` is missing; it must be a cron expression"));
    }
    let now = now();
    let cron = Cron {
        cron_id: new_id(),
        assistant_id: assistant.assistant_id,
        thread_id: thread,
        // As in LangGraph, the thread that each run of a cron creates is deleted, unless the client keeps it.
        on_run_completed: thread.is_none().then(|| "delete".to_owned()),
        end_time: None,
        schedule: String::new(),
        timezone: None,
        created_at: now.clone(),
        updated_at: now,
        payload: Map::new(),
        user_id: manager.database.view().owner().map(str::to_owned),
        next_run_date: None,
        metadata: Metadata::new(),
        enabled: true,
    };
    let cron = body.apply(manager, cron)?;
    manager.database.put(&cron).await?;
    manager.wake_timer().await;
    Ok(Json(cron))
}

impl Settings {
    /// Applies the settings to a cron, and validates it.
    fn apply(&self, manager: &Manager, mut cron: Cron) -> ApiResult<Cron> {
        if self.on_run_completed.is_some() && cron.thread_id.is_some() {
            let detail = "`on_run_completed` applies only to crons without a thread; leave it out";
            return Err(ApiError::invalid(detail));
        }
        cron.payload.extend(self.payload.clone());
        cron.schedule = self.schedule.clone().unwrap_or(cron.schedule);
        cron.timezone = self.timezone.clone().or(cron.timezone);
        cron.end_time = match &self.end_time {
            Some(Some(end)) => Some(parse_time(end)?.to_rfc3339()),
            Some(None) => None,
            None => cron.end_time,
        };
        cron.enabled = self.enabled.unwrap_or(cron.enabled);
        cron.on_run_completed = self.on_run_completed.clone().or(cron.on_run_completed);
        cron.metadata.extend(self.metadata.clone());
        manager.database.view().add_required::<Cron>(&mut cron.metadata);
        cron.payload.insert("metadata".to_owned(), Value::Object(cron.metadata.clone()));
        cron.updated_at = now();
        cron.next_run_date = next_date(&cron, SystemTime::now().into())?;
        run_request(&cron)?;
        if let Some(url) = cron.payload.get("webhook").and_then(Value::as_str) {
            manager.webhooks.check(url)?;
        }
        Ok(cron)
    }
}

async fn find(manager: &Manager, id: &str) -> ApiResult<Cron> {
    let id = parse_id("cron", id)?;
    manager.database.get(&id.to_string()).await?.ok_or_else(|| unknown_cron(id))
}

fn unknown_cron(id: Uuid) -> ApiError {
    ApiError::not_found(format!("cron {id} does not exist"))
}

async fn read(Access(manager): Access, Path(id): Path<String>) -> ApiResult<Json<Cron>> {
    find(&manager, &id).await.map(Json)
}

/// Maximum number of attempts to change a cron that other requests change at the same time.
const MAX_ATTEMPTS: usize = 10;

async fn update(
    Access(manager): Access,
    Path(id): Path<String>,
    Body(body): Body<Settings>,
) -> ApiResult<Json<Cron>> {
    for _ in 0..MAX_ATTEMPTS {
        let read = find(&manager, &id).await?;
        if body.payload.contains_key("assistant_id") {
            return Err(ApiError::invalid(
                "the assistant of a cron cannot be changed; create another cron",
            ));
        }
        let changed = body.apply(&manager, read.clone())?;
        // The timer and other requests may have changed or deleted the cron since it was read.
        if manager.database.replace(&changed, &read).await? {
            manager.wake_timer().await;
            return Ok(Json(changed));
        }
    }
    let detail = format!("other requests are changing cron {id}; try again");
    Err(ApiError::conflict(detail))
}

async fn delete(Access(manager): Access, Path(id): Path<String>) -> ApiResult<StatusCode> {
    let id = parse_id("cron", &id)?;
    match manager.database.delete::<Cron>(&id.to_string()).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(unknown_cron(id)),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchCrons {
    assistant_id: Option<String>,
    thread_id: Option<Uuid>,
    enabled: Option<bool>,
    #[serde(default, deserialize_with = "or_default")]
    metadata: Metadata,
    limit: Option<usize>,
    offset: Option<usize>,
    sort_by: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    sort_order: SortOrder,
    #[serde(default, deserialize_with = "or_default")]
    select: Vec<String>,
}

impl SearchCrons {
    /// Returns the crons on a page, and the total number of matching crons.
    async fn find(&self, manager: &Manager, page: Page) -> ApiResult<(Vec<Cron>, usize)> {
        check_fields(&self.select, &CRON_FIELDS)?;
        let sort_by = sort_field(self.sort_by.as_deref(), &CRON_SORT_FIELDS, "created_at")?;
        let mut fields = Map::new();
        if let Some(id) = &self.assistant_id {
            let assistant = find_assistant(&manager.graphs, &manager.database, id).await?;
            fields.insert("assistant_id".to_owned(), json!(assistant.assistant_id));
        }
        fields.extend(self.thread_id.map(|it| ("thread_id".to_owned(), json!(it))));
        fields.extend(self.enabled.map(|it| ("enabled".to_owned(), json!(it))));
        let search = Search {
            fields: Some(&fields).filter(|it| !it.is_empty()),
            metadata: Some(&self.metadata).filter(|it| !it.is_empty()),
            ..page.search(sort_by, self.sort_order)
        };
        manager.database.search(&search).await
    }
}

async fn search(Access(manager): Access, Body(body): Body<SearchCrons>) -> ApiResult<Response> {
    let page = Page::new(body.limit, body.offset)?;
    let (found, total) = body.find(&manager, page).await?;
    let found = found.iter().map(|it| select(it, &body.select, &CRON_FIELDS));
    Ok(page.respond(&found.collect::<ApiResult<Vec<_>>>()?, total))
}

async fn count(Access(manager): Access, Body(body): Body<SearchCrons>) -> ApiResult<Json<usize>> {
    Page::new(body.limit, body.offset)?;
    let (_, total) = body.find(&manager, Page::empty()).await?;
    Ok(Json(total))
}
