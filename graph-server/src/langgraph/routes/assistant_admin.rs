//! Assistants: create, update, delete and versions.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::Path,
    http::StatusCode,
    routing::{patch, post},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::threads::IfExists;
use crate::langgraph::{
    access::Access,
    assistants::{find_assistant, store_new, versions},
    error::{ApiError, ApiResult},
    id::{new_id, parse_id},
    json_filter::contains_all,
    manager::Manager,
    records::{Assistant, AssistantVersion, Cron, Thread},
    request::{
        body::{Body, or_default},
        config::{Config, Metadata},
        page::Page,
        query::Query,
    },
    storage::Search,
    time::now,
    view::View,
};

pub(super) fn routes() -> Router<Arc<Manager>> {
    Router::new()
        .route("/assistants", post(create))
        .route("/assistants/{id}", patch(update).delete(delete))
        .route("/assistants/{id}/versions", post(list_versions))
        .route("/assistants/{id}/latest", post(set_latest))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CreateAssistant {
    graph_id: String,
    assistant_id: Option<Uuid>,
    #[serde(default, deserialize_with = "or_default")]
    config: Config,
    context: Option<Map<String, Value>>,
    #[serde(default, deserialize_with = "or_default")]
    metadata: Metadata,
    name: Option<String>,
    description: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    if_exists: IfExists,
}

async fn create(
    Access(manager): Access,
    Body(body): Body<CreateAssistant>,
) -> ApiResult<Json<Assistant>> {
    manager.graph(&body.graph_id)?;
    let id = body.assistant_id.unwrap_or_else(new_id);
    let (config, context) = settings(body.config, body.context)?;
    let mut metadata = body.metadata;
    manager.database.view().add_required::<Assistant>(&mut metadata);
    let now = now();
    let assistant = Assistant {
        assistant_id: id,
        graph_id: body.graph_id,
        config,
        context,
        metadata,
        name: body.name.unwrap_or_else(|| "Untitled".to_owned()),
        description: body.description,
        created_at: now.clone(),
        updated_at: now,
        version: 1,
    };
    if store_new(&manager.database, &assistant).await? {
        return Ok(Json(assistant));
    }
    let existing = manager.database.get::<Assistant>(&id.to_string()).await?;
    match (existing, body.if_exists) {
        (Some(existing), IfExists::DoNothing) => Ok(Json(existing)),
        (Some(_), IfExists::Raise) => Err(ApiError::conflict(format!(
            "assistant {id} already exists; use another id, or set `if_exists` to `do_nothing`"
        ))),
        (None, _) => Err(ApiError::id_in_use()),
    }
}

/// Returns the configuration and the context of an assistant. They are the same settings under two names, so each
/// contains the settings that were given in the other.
fn settings(mut config: Config, context: Option<Map<String, Value>>) -> ApiResult<(Value, Value)> {
    config.check_context(context.as_ref())?;
    let mut settings = config.settings();
    settings.extend(context.unwrap_or_default());
    config.configurable = settings.clone();
    Ok((json!(config), Value::Object(settings)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UpdateAssistant {
    graph_id: Option<String>,
    config: Option<Config>,
    context: Option<Map<String, Value>>,
    #[serde(default, deserialize_with = "or_default")]
    metadata: Metadata,
    name: Option<String>,
    description: Option<String>,
}

/// Maximum number of attempts to change an assistant that other requests change at the same time.
const MAX_ATTEMPTS: usize = 10;

/// Stores a new version.
async fn update(
    Access(manager): Access,
    Path(id): Path<String>,
    Body(body): Body<UpdateAssistant>,
) -> ApiResult<Json<Assistant>> {
    for _ in 0..MAX_ATTEMPTS {
        let read = find_assistant(&manager.graphs, &manager.database, &id).await?;
        manager.check_change::<Assistant>(&read.assistant_id.to_string()).await?;
        let changed = body.apply(&manager, read.clone()).await?;
        let version = AssistantVersion(changed.clone());
        if manager.database.replace_and_add(&changed, &read, &version).await? {
            return Ok(Json(changed));
        }
    }
    let detail = format!("other requests are changing assistant {id}; try again");
    Err(ApiError::conflict(detail))
}

impl UpdateAssistant {
    /// Returns the next version of an assistant. Settings are replaced, metadata is merged.
    async fn apply(&self, manager: &Manager, mut assistant: Assistant) -> ApiResult<Assistant> {
        if let Some(graph) = &self.graph_id {
            manager.graph(graph)?;
            assistant.graph_id.clone_from(graph);
        }
        if self.config.is_some() || self.context.is_some() {
            let config = self.config.clone().unwrap_or_default();
            (assistant.config, assistant.context) = settings(config, self.context.clone())?;
        }
        assistant.metadata.extend(self.metadata.clone());
        manager.database.view().add_required::<Assistant>(&mut assistant.metadata);
        assistant.name = self.name.clone().unwrap_or(assistant.name);
        assistant.description = self.description.clone().or(assistant.description);
        // Versions that the client does not see have numbers too.
        let unrestricted = manager.database.with_view(View::default());
        let newest = versions(&unrestricted, assistant.assistant_id).await?;
        assistant.version = newest.first().map_or(1, |it| it.version + 1);
        assistant.updated_at = now();
        Ok(assistant)
    }
}

async fn delete(
    Access(manager): Access,
    Path(id): Path<String>,
    mut query: Query,
) -> ApiResult<StatusCode> {
    let with_threads = query.take_flag("delete_threads")?;
    query.finish()?;
    let id =
        find_assistant(&manager.graphs, &manager.database, &id).await?.assistant_id.to_string();
    manager.check_change::<Assistant>(&id).await?;
    // The assistant is deleted before its threads, so that no thread can start new runs of it.
    if !manager.database.delete::<Assistant>(&id).await? {
        return Err(ApiError::not_found(format!("assistant {id} does not exist")));
    }
    // Earlier versions can have other metadata, so the client may not see all of them.
    let unrestricted = manager.database.with_view(View::default());
    unrestricted.delete_children::<AssistantVersion>(&id).await?;
    delete_crons(&manager, &id).await?;
    if with_threads {
        delete_threads(&manager, &id).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Returns an object with one field.
fn field(name: &str, value: &str) -> Map<String, Value> {
    Map::from_iter([(name.to_owned(), json!(value))])
}

/// Deletes the crons of an assistant, because they cannot start runs without the assistant.
async fn delete_crons(manager: &Manager, assistant: &str) -> ApiResult<()> {
    let fields = field("assistant_id", assistant);
    let search = Search { fields: Some(&fields), sort_by: "cron_id", ..Search::default() };
    for id in manager.database.search_ids::<Cron>(&search).await? {
        manager.database.delete::<Cron>(&id).await?;
    }
    Ok(())
}

/// Deletes the threads whose latest run belongs to an assistant.
async fn delete_threads(manager: &Arc<Manager>, assistant: &str) -> ApiResult<()> {
    let metadata = field("assistant_id", assistant);
    let search = Search { metadata: Some(&metadata), sort_by: "thread_id", ..Search::default() };
    for id in manager.database.search_ids::<Thread>(&search).await? {
        manager.delete_thread(parse_id("thread", &id)?).await?;
    }
    Ok(())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListVersions {
    #[serde(default, deserialize_with = "or_default")]
    metadata: Metadata,
    limit: Option<usize>,
    offset: Option<usize>,
}

async fn list_versions(
    Access(manager): Access,
    Path(id): Path<String>,
    Body(body): Body<ListVersions>,
) -> ApiResult<Json<Vec<Assistant>>> {
    let page = Page::new(body.limit, body.offset)?;
    let assistant = find_assistant(&manager.graphs, &manager.database, &id).await?;
    let mut versions = versions(&manager.database, assistant.assistant_id).await?;
    versions.retain(|it| contains_all(&it.metadata, &body.metadata));
    Ok(Json(page.of(versions)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SetLatest {
    version: u32,
}

/// Makes an earlier version of an assistant the current one, with all its settings.
async fn set_latest(
    Access(manager): Access,
    Path(id): Path<String>,
    Body(body): Body<SetLatest>,
) -> ApiResult<Json<Assistant>> {
    let id = parse_id("assistant", &id)?;
    let stored =
        manager.database.get::<AssistantVersion>(&format!("{id}:{}", body.version)).await?;
    let missing = || ApiError::not_found(format!("assistant {id} has no version {}", body.version));
    let mut assistant = stored.ok_or_else(missing)?.0;
    manager.check_change::<Assistant>(&id.to_string()).await?;
    assistant.updated_at = now();
    manager.database.put(&assistant).await?;
    Ok(Json(assistant))
}
