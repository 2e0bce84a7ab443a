//! HTTP routes.

use app_support::server::blocking;
use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use graph_server::http::{
    Body, ClientNetwork, EventPage, EventsQuery, LastEventId, Message, Params, Path, Problem,
    ProblemBody, stream_events,
};
use serde::Deserialize;
use serde_json::json;
use utoipa::IntoParams;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    app_state::AppState,
    wire::{ExecuteRequest, Health, JobAccepted, JobListItem, JobView, PoolView, Stats},
};

type Answer<T> = Result<T, Problem>;

/// Default number of jobs per page.
const PAGE: usize = 50;
/// Maximum number of jobs per page.
const MAX_PAGE: usize = 200;

/// Returns the routes that require an API key if one is configured.
pub(super) fn locked() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(execute))
        .routes(routes!(jobs))
        .routes(routes!(job))
        .routes(routes!(events))
        .routes(routes!(stored_events))
        .routes(routes!(cancel))
        .routes(routes!(resume))
        .routes(routes!(stats))
        .routes(routes!(prometheus))
}

/// Returns the routes that never require an API key.
pub(super) fn open() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(health))
}

/// Accepts a job.
#[utoipa::path(post, path = "/execute", request_body = ExecuteRequest, responses(
    (status = 202, description = "The job was accepted", body = JobAccepted),
    (status = 429, description = "Too many requests, or the server is full", body = ProblemBody),
    (status = 503, description = "The server is shutting down", body = ProblemBody)))]
async fn execute(
    State(state): State<AppState>,
    Body(request): Body<ExecuteRequest>,
) -> Answer<Response> {
    let info = state.start_job(request).await?;
    Ok((StatusCode::ACCEPTED, Json(JobAccepted::of(&info))).into_response())
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct ListParams {
    /// Return only jobs created before this one.
    before: Option<String>,
    /// Maximum number of jobs, 1 to 200.
    limit: Option<usize>,
}

/// Lists the jobs, newest first.
#[utoipa::path(get, path = "/jobs", params(ListParams), responses(
    (status = 200, description = "A page of jobs", body = Vec<JobListItem>)))]
async fn jobs(
    State(state): State<AppState>,
    Params(params): Params<ListParams>,
) -> Answer<Json<Vec<JobListItem>>> {
    let limit = params.limit.unwrap_or(PAGE);
    if !(1..=MAX_PAGE).contains(&limit) {
        return Err(Problem::invalid(format!("limit must be from 1 to {MAX_PAGE}")));
    }
    let found = state.service.list(params.before, limit).await?;
    Ok(Json(found.iter().map(JobListItem::of).collect()))
}

/// Returns a job and, once it is complete, its result.
#[utoipa::path(get, path = "/jobs/{id}", params(("id" = String, Path, description = "The job")), responses(
    (status = 200, description = "The job's status and, once it is complete, its result", body = JobView),
    (status = 404, description = "The job does not exist", body = ProblemBody)))]
async fn job(State(state): State<AppState>, Path(id): Path<String>) -> Answer<Json<JobView>> {
    let info = state.service.get(&id).await?;
    let result = if info.status == graph_server::Status::Complete {
        let path = state.sessions.dir(&info.id).join("result.json");
        let read = move || {
            let text = std::fs::read(path).map_err(|error| Problem::internal(&error))?;
            serde_json::from_slice(&text).map_err(|error| Problem::internal(&error))
        };
        Some(blocking(read).await?)
    } else {
        None
    };
    let (job_id, task, status, error) = (info.id, info.subject, info.status, info.error);
    Ok(Json(JobView { job_id, task, status, error, result }))
}

/// Streams a job's progress from the start, or after the event whose number is given by `Last-Event-ID` or `after`.
#[utoipa::path(get, path = "/jobs/{id}/stream",
    params(("id" = String, Path, description = "The job"), LastEventId), responses(
    (status = 200, description = "Server-sent events: each has its number as `id` and an object as `data`. \
        The last event is named `end` and carries the job's status.", body = Message,
        content_type = "text/event-stream"),
    (status = 204, description = "The job has ended, and the client has received all its events"),
    (status = 404, description = "The job does not exist", body = ProblemBody),
    (status = 429, description = "Too many requests, or too many open streams", body = ProblemBody)))]
async fn events(
    State(state): State<AppState>,
    Path(id): Path<String>,
    LastEventId(after): LastEventId,
    client: ClientNetwork,
) -> Answer<Response> {
    // Status 204 tells a browser that reconnects after the end of the job not to connect again.
    if after > 0
        && !state.service.get(&id).await?.status.is_active()
        && state.service.stored_events(&id, after, 1).await?.is_empty()
    {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    stream_events(state.service.read_events(&id, after).await?, &state.streams, client)
}

/// Returns stored events of a job, for clients that poll.
#[utoipa::path(get, path = "/jobs/{id}/events",
    params(("id" = String, Path, description = "The job"), EventsQuery), responses(
    (status = 200, description = "Events, in order", body = EventPage),
    (status = 404, description = "The job does not exist", body = ProblemBody)))]
async fn stored_events(
    State(state): State<AppState>,
    Path(id): Path<String>,
    Params(query): Params<EventsQuery>,
) -> Answer<Json<EventPage>> {
    Ok(Json(EventPage::read(&state.service, &id, &query).await?))
}

/// Cancels a job. It can be resumed later.
#[utoipa::path(post, path = "/jobs/{id}/cancel", params(("id" = String, Path, description = "The job")), responses(
    (status = 202, description = "The job is being cancelled", body = JobAccepted),
    (status = 404, description = "The job does not exist", body = ProblemBody),
    (status = 409, description = "The job is not active", body = ProblemBody)))]
async fn cancel(State(state): State<AppState>, Path(id): Path<String>) -> Answer<Response> {
    let info = state.service.cancel(&id).await?;
    Ok((StatusCode::ACCEPTED, Json(JobAccepted::of(&info))).into_response())
}

/// Resumes a failed or cancelled job. Completed calls and executions are not repeated.
#[utoipa::path(post, path = "/jobs/{id}/resume", params(("id" = String, Path, description = "The job")), responses(
    (status = 202, description = "The job was resumed", body = JobAccepted),
    (status = 404, description = "The job does not exist", body = ProblemBody),
    (status = 409, description = "The job is active or complete", body = ProblemBody),
    (status = 429, description = "Too many requests, or the server is full", body = ProblemBody),
    (status = 503, description = "The server is shutting down", body = ProblemBody)))]
async fn resume(State(state): State<AppState>, Path(id): Path<String>) -> Answer<Response> {
    let info = state.service.resume(&id, json!({})).await?;
    Ok((StatusCode::ACCEPTED, Json(JobAccepted::of(&info))).into_response())
}

/// Returns the server's health.
#[utoipa::path(get, path = "/health", responses(
    (status = 200, description = "The server is running", body = Health)))]
async fn health(State(state): State<AppState>) -> Json<Health> {
    let executor = &state.sessions.deps.executor;
    let sandboxes = executor.sandboxes();
    Json(Health {
        status: if state.service.check_ready().await.is_ok() { "ok" } else { "full" },
        provider: state.choice.provider.clone(),
        sandbox: sandboxes.backend(),
        isolation: sandboxes.level().name(),
        memory_bounded: executor.memory_bounded(),
    })
}

/// Returns statistics of the jobs and of the sandbox pool.
#[utoipa::path(get, path = "/stats", responses(
    (status = 200, description = "The statistics", body = Stats)))]
async fn stats(State(state): State<AppState>) -> Answer<Json<Stats>> {
    let jobs = state.service.count_by_status().await?;
    let executor = state.sessions.deps.executor.stats();
    let pool = executor.pool;
    Ok(Json(Stats {
        uptime_seconds: state.since.elapsed().as_secs(),
        jobs: jobs.into_iter().map(|(status, count)| (status.name(), count)).collect(),
        pool: PoolView {
            size: executor.size,
            alive: executor.alive,
            ready: pool.ready,
            in_use: executor.in_use,
            most_in_use: executor.peak_in_use,
            executions: executor.executions,
            warm: pool.warm,
            cold: pool.cold,
            acquire_p50_ms: pool.p50.as_secs_f64() * 1e3,
            acquire_p95_ms: pool.p95.as_secs_f64() * 1e3,
        },
    }))
}

/// Returns metrics in the Prometheus text format.
#[utoipa::path(get, path = "/metrics", responses(
    (status = 200, description = "The statistics", body = String)))]
async fn prometheus(State(state): State<AppState>) -> Answer<Response> {
    state.metrics.render(&state.service).await
}
