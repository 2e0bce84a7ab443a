//! The routes.

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use graph_server::{
    NewRun,
    http::{Body, Params, Path, Place, Problem, ProblemBody, stream},
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;
use utoipa::IntoParams;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Desk,
    wire::{Execute, Health, JobView, Listed, PoolView, Stats, Taken},
};
use crate::{
    Job, Limits,
    run::{Manifest, Run, RunProblem, run_id},
};

type Answer<T> = Result<T, Problem>;

/// Jobs on a page of the list.
const PAGE: usize = 50;
const MOST_ON_PAGE: usize = 200;

/// Routes that need a key where there is one.
pub(super) fn locked() -> OpenApiRouter<Desk> {
    OpenApiRouter::new()
        .routes(routes!(execute))
        .routes(routes!(jobs))
        .routes(routes!(job))
        .routes(routes!(events))
        .routes(routes!(cancel))
        .routes(routes!(resume))
        .routes(routes!(stats))
        .routes(routes!(prometheus))
}

/// Routes that are open to all.
pub(super) fn open() -> OpenApiRouter<Desk> {
    OpenApiRouter::new().routes(routes!(health))
}

/// Takes a job.
#[utoipa::path(post, path = "/execute", request_body = Execute, responses(
    (status = 202, description = "It is taken", body = Taken),
    (status = "4XX", description = "It cannot be", body = ProblemBody),
    (status = 503, description = "The server ends", body = ProblemBody)))]
async fn execute(State(desk): State<Desk>, Body(wanted): Body<Execute>) -> Answer<Response> {
    let limits = Limits {
        timeout: wanted.timeout.unwrap_or(desk.limits.timeout),
        cpu_time: desk.limits.cpu_time,
        memory: wanted.memory.unwrap_or(desk.limits.memory),
    };
    if limits.memory > desk.limits.memory {
        let most = desk.limits.memory;
        return Err(Problem::invalid(format!("this server's sandboxes have {most} MiB of memory")));
    }
    let allowance = wanted.allowance(desk.allowance).map_err(Problem::invalid)?;
    let priced = allowance.check(&desk.sessions.deps.generator);
    priced.map_err(|error| Problem::invalid(error.to_string()))?;
    let job = Job {
        task: wanted.task.trim().to_owned(),
        tests: wanted.tests,
        expect: wanted.expect,
        max_attempts: wanted.max_attempts.unwrap_or(desk.max_attempts),
        limits,
        ..Job::default()
    };
    job.check().map_err(|error| Problem::invalid(error.to_string()))?;
    // Before anything is written for it.
    desk.service.ready().await?;
    let id = run_id(&job.task).map_err(|error| Problem::internal(&error))?;
    let folder = desk.sessions.of(&id);
    let subject = job.task.clone();
    let (choice, place) = (desk.choice.clone(), (*desk.place).clone());
    let manifest = Manifest { job, choice, place, allowance, kept: Vec::new() };
    let made = folder.clone();
    blocking(move || Run::create(made, manifest).map_err(internal)).await?;
    match desk.service.start(NewRun { id, subject, input: Value::Null }).await {
        Ok(info) => Ok((StatusCode::ACCEPTED, Json(Taken::of(&info))).into_response()),
        Err(error) => {
            // Nobody has seen it.
            let _ = tokio::fs::remove_dir_all(folder).await;
            Err(error.into())
        }
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct Wanted {
    /// Jobs that were made before this one.
    before: Option<String>,
    /// How many, 1 to 200.
    limit: Option<usize>,
}

/// The jobs, newest first.
#[utoipa::path(get, path = "/jobs", params(Wanted), responses(
    (status = 200, description = "A page of them", body = Vec<Listed>),
    (status = "4XX", description = "There is no such page", body = ProblemBody)))]
async fn jobs(
    State(desk): State<Desk>,
    Params(wanted): Params<Wanted>,
) -> Answer<Json<Vec<Listed>>> {
    let limit = wanted.limit.unwrap_or(PAGE);
    if !(1..=MOST_ON_PAGE).contains(&limit) {
        return Err(Problem::invalid(format!("limit is from 1 to {MOST_ON_PAGE}")));
    }
    let found = desk.service.list(wanted.before, limit).await?;
    Ok(Json(found.iter().map(Listed::of).collect()))
}

/// A job, with all that it came to.
#[utoipa::path(get, path = "/jobs/{id}", params(("id" = String, Path, description = "The job")), responses(
    (status = 200, description = "Where it stands, and what it came to", body = JobView),
    (status = "4XX", description = "There is no such job", body = ProblemBody)))]
async fn job(State(desk): State<Desk>, Path(id): Path<String>) -> Answer<Json<JobView>> {
    let info = desk.service.get(&id).await?;
    let result = if info.status == graph_server::Status::Complete {
        let path = desk.sessions.of(&info.id).join("result.json");
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

/// Streams a job's progress: from the start, or after the event that `Last-Event-ID` or `after` names.
#[utoipa::path(get, path = "/jobs/{id}/stream", params(("id" = String, Path, description = "The job"),
        ("after" = Option<u64>, Query, description = "Only events after this one"),
        ("Last-Event-ID" = Option<u64>, Header, description = "Only events after this one")), responses(
    (status = 200, description = "Server-sent events: each has its number as `id` and an object as `data`. \
        The last one is named `end` and says where the job stands.", body = String,
        content_type = "text/event-stream"),
    (status = "4XX", description = "There is no such job", body = ProblemBody)))]
async fn events(
    State(desk): State<Desk>,
    Path(id): Path<String>,
    Place(after): Place,
) -> Answer<Response> {
    stream(desk.service.read(&id, after).await?, &desk.streams)
}

/// Stops a job; it can go on later.
#[utoipa::path(post, path = "/jobs/{id}/cancel", params(("id" = String, Path, description = "The job")), responses(
    (status = 202, description = "It is stopped", body = Taken),
    (status = "4XX", description = "There is no such job, or it rests", body = ProblemBody)))]
async fn cancel(State(desk): State<Desk>, Path(id): Path<String>) -> Answer<Response> {
    let info = desk.service.cancel(&id).await?;
    Ok((StatusCode::ACCEPTED, Json(Taken::of(&info))).into_response())
}

/// Goes on with a job that failed or was stopped; nothing is paid for twice.
#[utoipa::path(post, path = "/jobs/{id}/resume", params(("id" = String, Path, description = "The job")), responses(
    (status = 202, description = "It goes on", body = Taken),
    (status = "4XX", description = "There is no such job, or it goes on already", body = ProblemBody)))]
async fn resume(State(desk): State<Desk>, Path(id): Path<String>) -> Answer<Response> {
    let info = desk.service.resume(&id, json!({})).await?;
    Ok((StatusCode::ACCEPTED, Json(Taken::of(&info))).into_response())
}

/// How the server is.
#[utoipa::path(get, path = "/health", responses(
    (status = 200, description = "It is there", body = Health)))]
async fn health(State(desk): State<Desk>) -> Json<Health> {
    let sandboxes = desk.sessions.deps.workshop.sandboxes();
    Json(Health {
        status: if desk.service.ready().await.is_ok() { "ok" } else { "full" },
        provider: desk.choice.provider.clone(),
        sandbox: sandboxes.backend(),
        isolated: sandboxes.isolated(),
    })
}

/// What the server has done, and how its pool of sandboxes stands.
#[utoipa::path(get, path = "/stats", responses(
    (status = 200, description = "The counts", body = Stats),
    (status = "4XX", description = "No key", body = ProblemBody)))]
async fn stats(State(desk): State<Desk>) -> Answer<Json<Stats>> {
    let jobs = desk.service.count().await?;
    let workshop = desk.sessions.deps.workshop.stats();
    let pool = workshop.pool;
    Ok(Json(Stats {
        uptime_seconds: desk.since.elapsed().as_secs(),
        jobs: jobs.into_iter().map(|(status, count)| (status.name(), count)).collect(),
        pool: PoolView {
            size: workshop.size,
            alive: workshop.alive,
            ready: pool.ready,
            in_use: workshop.in_use,
            most_in_use: workshop.most_in_use,
            executions: workshop.executions,
            warm: pool.warm,
            cold: pool.cold,
            acquire_p50_ms: pool.p50.as_secs_f64() * 1e3,
            acquire_p95_ms: pool.p95.as_secs_f64() * 1e3,
        },
    }))
}

/// Counts for Prometheus.
#[utoipa::path(get, path = "/metrics", responses(
    (status = 200, description = "The counts", body = String),
    (status = "4XX", description = "No key", body = ProblemBody)))]
async fn prometheus(State(desk): State<Desk>) -> Answer<Response> {
    desk.metrics.render(&desk.service).await
}

/// Does what may wait for the disk.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Answer<T> + Send + 'static,
) -> Answer<T> {
    spawn_blocking(work).await.map_err(|error| Problem::internal(&error))?
}

fn internal(problem: RunProblem) -> Problem {
    match problem {
        RunProblem::Job(problem) => Problem::invalid(problem.to_string()),
        other => Problem::internal(&other),
    }
}
