//! Runs without a thread. The server creates a thread for each of them, and deletes it when the run has ended. Only the
//! runs of a batch can name a thread.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::Path,
    http::HeaderMap,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{
    run_control::{last_event_id, on_disconnect, stream_modes},
    run_response::{
        CancelOnDrop, address, check_run, create_run, stream_run, wait_for_run, with_location,
    },
};
use crate::langgraph::{
    access::Access,
    error::{ApiError, ApiResult},
    id::parse_id,
    manager::Manager,
    records::Run,
    request::{
        body::{Body, BodyList},
        query::Query,
        run::RunCreate,
    },
};

pub(super) fn routes() -> Router<Arc<Manager>> {
    Router::new()
        .route("/runs", post(create))
        .route("/runs/wait", post(wait))
        .route("/runs/stream", post(stream))
        .route("/runs/batch", post(batch))
        .route("/runs/{run}/stream", get(join_stream))
}

/// Returns the address of a run, for clients that do not know its thread.
fn short_address(run: &Run) -> String {
    format!("/runs/{}", run.run_id)
}

async fn create(Access(manager): Access, Body(body): Body<RunCreate>) -> ApiResult<Response> {
    let (run, _) = create_run(&manager, None, &body).await?;
    Ok(with_location(Json(&run).into_response(), &short_address(&run), None))
}

async fn wait(Access(manager): Access, Body(body): Body<RunCreate>) -> ApiResult<Response> {
    let (run, live) = create_run(&manager, None, &body).await?;
    let guard = CancelOnDrop::new(&manager, &live, body.on_disconnect);
    Ok(with_location(wait_for_run(&live, guard), &address(&run), Some("join")))
}

async fn stream(Access(manager): Access, Body(body): Body<RunCreate>) -> ApiResult<Response> {
    let (run, live) = create_run(&manager, None, &body).await?;
    let guard = CancelOnDrop::new(&manager, &live, body.on_disconnect);
    let response = stream_run(&live, live.selection.clone(), None, guard);
    Ok(with_location(response, &short_address(&run), Some("stream")))
}

/// Maximum number of runs in a batch.
const MAX_BATCH: usize = 1000;

/// A run of a batch. It names its thread in the body, unlike other requests.
struct BatchRun {
    thread: Option<Uuid>,
    body: RunCreate,
}

impl<'de> Deserialize<'de> for BatchRun {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = Map::<String, Value>::deserialize(deserializer)?;
        let thread = fields.remove("thread_id").unwrap_or_default();
        let thread = Option::<Uuid>::deserialize(thread)
            .map_err(|error| D::Error::custom(format_args!("thread_id: {error}")))?;
        let body = RunCreate::deserialize(Value::Object(fields)).map_err(D::Error::custom)?;
        Ok(Self { thread, body })
    }
}

/// Creates several runs, each on its thread or on a new one. If one of them is invalid, none is created.
async fn batch(
    Access(manager): Access,
    BodyList(runs): BodyList<BatchRun>,
) -> ApiResult<Json<Vec<Run>>> {
    if runs.is_empty() {
        return Err(ApiError::invalid("the batch is empty; it needs at least one run"));
    }
    if runs.len() > MAX_BATCH {
        return Err(ApiError::invalid(format!("a batch has at most {MAX_BATCH} runs; split it")));
    }
    for BatchRun { thread, body } in &runs {
        check_run(&manager, *thread, body).await?;
    }
    let mut created = Vec::new();
    for BatchRun { thread, body } in &runs {
        created.push(create_run(&manager, *thread, body).await?.0);
    }
    Ok(Json(created))
}

/// Streams the events of a run that is active or ended recently.
async fn join_stream(
    Access(manager): Access,
    Path(run): Path<String>,
    headers: HeaderMap,
    mut query: Query,
) -> ApiResult<Response> {
    let (modes, on_disconnect) = (stream_modes(&mut query)?, on_disconnect(&mut query)?);
    query.finish()?;
    // Parsed before the guard is created, because dropping the guard cancels the run.
    let seen = last_event_id(&headers)?;
    let run = parse_id("run", &run)?;
    let missing = || {
        ApiError::not_found(format!(
            "run {run} is not active, and its events are no longer in memory"
        ))
    };
    let live = manager.live(run).await?.ok_or_else(missing)?;
    let guard = CancelOnDrop::new(&manager, &live, on_disconnect);
    let mut selection = live.selection.clone();
    selection.modes = modes.unwrap_or(selection.modes);
    let response = stream_run(&live, selection, seen, guard);
    Ok(with_location(response, &format!("/runs/{run}"), Some("stream")))
}
