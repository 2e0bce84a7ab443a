//! Runs on threads: list, read, delete, cancel and join.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::Path,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::run_response::{CancelOnDrop, address, stream_run, wait_for_run, with_location};
use crate::langgraph::{
    access::Access,
    cancellation::{CancelAction, Cancellation},
    error::{ApiError, ApiResult},
    id::parse_id,
    manager::Manager,
    records::{RUN_FIELDS, Run, RunStatus},
    request::{
        body::Body,
        mode::{Mode, without_repetitions},
        page::{Page, SortOrder, check_fields, select},
        query::Query,
        run::OnDisconnect,
    },
    storage::{ActiveRun, Search},
    stream::sse::{EventId, empty_stream, parse_event_id},
};

pub(super) fn routes() -> Router<Arc<Manager>> {
    Router::new()
        .route("/threads/{thread}/runs", get(list))
        .route("/threads/{thread}/runs/{run}", get(read).delete(delete))
        .route("/threads/{thread}/runs/{run}/cancel", post(cancel))
        .route("/threads/{thread}/runs/{run}/join", get(join))
        .route("/threads/{thread}/runs/{run}/stream", get(join_stream))
        .route("/runs/cancel", post(cancel_many))
}

/// Reason for a cancellation that a client requested.
const BY_REQUEST: &str = "a client cancelled the run";

async fn list(
    Access(manager): Access,
    Path(thread): Path<String>,
    mut query: Query,
) -> ApiResult<Json<Vec<Value>>> {
    let page = Page::new(query.take_number("limit")?, query.take_number("offset")?)?;
    let status: Option<RunStatus> = query.take_choice("status")?;
    let fields = query.take_list("select");
    query.finish()?;
    check_fields(&fields, &RUN_FIELDS)?;
    let thread = manager.thread(parse_id("thread", &thread)?).await?.thread_id.to_string();
    let search = Search {
        parent: Some(&thread),
        status: status.map(RunStatus::name),
        ..page.search("created_at", SortOrder::Desc)
    };
    let (runs, _) = manager.database.search::<Run>(&search).await?;
    runs.iter().map(|it| select(it, &fields, &RUN_FIELDS)).collect::<ApiResult<_>>().map(Json)
}

fn ids(thread: &str, run: &str) -> ApiResult<(Uuid, Uuid)> {
    Ok((parse_id("thread", thread)?, parse_id("run", run)?))
}

async fn read(
    Access(manager): Access,
    Path((thread, run)): Path<(String, String)>,
) -> ApiResult<Json<Run>> {
    let (thread, run) = ids(&thread, &run)?;
    manager.run(thread, run).await.map(Json)
}

/// Deletes a run. An active run is cancelled first. Its checkpoints are kept.
async fn delete(
    Access(manager): Access,
    Path((thread, run)): Path<(String, String)>,
) -> ApiResult<StatusCode> {
    let (thread, run) = ids(&thread, &run)?;
    manager.run(thread, run).await?;
    let cancellation = Cancellation::new(CancelAction::Interrupt, "the run was deleted");
    if let Ok(live) = manager.cancel(thread, run, cancellation).await {
        live.output().await;
    }
    manager.database.delete::<Run>(&run.to_string()).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn cancel(
    Access(manager): Access,
    Path((thread, run)): Path<(String, String)>,
    mut query: Query,
) -> ApiResult<Response> {
    let wait = query.take_flag("wait")?;
    let action = query.take_choice("action")?.unwrap_or_default();
    query.finish()?;
    let (thread, run) = ids(&thread, &run)?;
    let live = manager.cancel(thread, run, Cancellation::new(action, BY_REQUEST)).await?;
    let own = format!("/threads/{thread}/runs/{run}");
    if !wait {
        return Ok(with_location(StatusCode::ACCEPTED.into_response(), &own, Some("join")));
    }
    live.output().await;
    Ok(with_location(Json(json!({})).into_response(), &own, Some("join")))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CancelMany {
    thread_id: Option<Uuid>,
    run_ids: Option<Vec<Uuid>>,
    status: Option<CancelStatus>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum CancelStatus {
    Pending,
    Running,
    All,
}

async fn cancel_many(
    Access(manager): Access,
    mut query: Query,
    Body(body): Body<CancelMany>,
) -> ApiResult<StatusCode> {
    let action: CancelAction = query.take_choice("action")?.unwrap_or_default();
    query.finish()?;
    let mut active = manager.active(body.thread_id).await?;
    match (&body.run_ids, body.status) {
        (Some(ids), None) if body.thread_id.is_some() => {
            active.retain(|it| ids.contains(&it.run));
        }
        (None, Some(status)) => active.retain(|it| match status {
            CancelStatus::Pending => !it.started,
            CancelStatus::Running => it.started,
            CancelStatus::All => true,
        }),
        _ => {
            let detail = "the request must have either `thread_id` and `run_ids`, or `status`";
            return Err(ApiError::invalid(detail));
        }
    }
    if active.is_empty() {
        return Err(ApiError::not_found("no active run matches the request"));
    }
    for ActiveRun { thread, run, .. } in active {
        // A run that ended in the meantime needs no cancellation.
        let cancellation = Cancellation::new(action, BY_REQUEST);
        let _ = manager.cancel(thread, run, cancellation).await;
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Waits for the end of a run. If the run is no longer in memory, responds with the current values of its thread.
async fn join(
    Access(manager): Access,
    Path((thread, run)): Path<(String, String)>,
    mut query: Query,
) -> ApiResult<Response> {
    let on_disconnect = on_disconnect(&mut query)?;
    query.finish()?;
    let (thread, run) = ids(&thread, &run)?;
    let response = match manager.live(run).await?.filter(|it| it.facts.thread == thread) {
        Some(live) => {
            if live.has_ended() {
                check_deleted(&manager, thread, run).await?;
            }
            let guard = CancelOnDrop::new(&manager, &live, on_disconnect);
            wait_for_run(&live, guard)
        }
        None => {
            let run = manager.run(thread, run).await?;
            let thread = manager.thread(thread).await?;
            let output = match (run.status, thread.error) {
                (RunStatus::Error | RunStatus::Timeout, Some(error)) => {
                    json!({ "__error__": error })
                }
                _ => thread.values.unwrap_or_else(|| json!({})),
            };
            Json(output).into_response()
        }
    };
    let own = format!("/threads/{thread}/runs/{run}");
    Ok(with_location(response, &own, Some("join")))
}

/// Fails if an ended run was deleted. The result of a run whose temporary thread was deleted with it stays readable for
/// a while, because a client that lost its connection asks for it.
async fn check_deleted(manager: &Manager, thread: Uuid, run: Uuid) -> ApiResult<()> {
    let found = manager.run(thread, run).await.map(drop);
    match manager.thread(thread).await {
        Ok(_) => found,
        Err(_) => Ok(()),
    }
}

/// Returns whether the run is cancelled when the client disconnects.
pub(super) fn on_disconnect(query: &mut Query) -> ApiResult<OnDisconnect> {
    Ok(match query.take_flag("cancel_on_disconnect")? {
        true => OnDisconnect::Cancel,
        false => OnDisconnect::Continue,
    })
}

/// Returns the last event that the client has received, from the header `Last-Event-ID`.
pub(super) fn last_event_id(headers: &HeaderMap) -> ApiResult<Option<EventId>> {
    let Some(header) = headers.get("last-event-id") else { return Ok(None) };
    let id = header.to_str().ok().filter(|it| !it.is_empty()).map(parse_event_id);
    match id {
        None => Ok(None),
        Some(Some(id)) => Ok(Some(id)),
        Some(None) => Err(ApiError::invalid("`Last-Event-ID` must be the id of an event or -1")),
    }
}

/// Streams the events of a run after `Last-Event-ID`. Without this header, streams all buffered events of an active
/// run, and no events of a run that has ended.
async fn join_stream(
    Access(manager): Access,
    Path((thread, run)): Path<(String, String)>,
    headers: HeaderMap,
    mut query: Query,
) -> ApiResult<Response> {
    let modes = stream_modes(&mut query)?;
    let on_disconnect = on_disconnect(&mut query)?;
    query.finish()?;
    let seen = last_event_id(&headers)?;
    let (thread, run) = ids(&thread, &run)?;
    let stored = manager.run(thread, run).await?;
    let response = match manager.live(run).await? {
        Some(live) => {
            let guard = CancelOnDrop::new(&manager, &live, on_disconnect);
            let mut selection = live.selection.clone();
            selection.modes = modes.unwrap_or(selection.modes);
            let seen =
                seen.or_else(|| live.has_ended().then(|| (live.buffer.last_seq(), usize::MAX)));
            stream_run(&live, selection, seen, guard)
        }
        None => empty_stream(),
    };
    Ok(with_location(response, &address(&stored), Some("stream")))
}

/// Returns the stream modes of a request, if it has any.
pub(super) fn stream_modes(query: &mut Query) -> ApiResult<Option<Vec<Mode>>> {
    let names = query.take_list("stream_mode");
    let parse = |mode: String| {
        serde_json::from_value(Value::String(mode))
            .map_err(|error| ApiError::invalid(format!("invalid stream mode: {error}")))
    };
    let modes = names.into_iter().map(parse).collect::<ApiResult<Vec<_>>>()?;
    Ok(Some(without_repetitions(modes)).filter(|it| !it.is_empty()))
}
