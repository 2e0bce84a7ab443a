//! The server behind `agent-sandbox serve`. It accepts jobs over HTTP and streams their progress as server-sent events.
//! It also serves a web page on which users submit tasks and watch their jobs.
//!
//! Each job is a session in its own directory, so `agent-sandbox resume` can resume a job too. The registry of all jobs
//! is the file `runs.db` in the parent directory. After a restart, the server resumes unfinished jobs. All jobs share
//! one pool of sandboxes.

mod app_state;
mod langgraph;
mod page;
mod routes;
mod runner;
mod start_job;
mod wire;

use std::{error::Error, path::PathBuf, sync::Arc, time::Instant};

use app_support::{
    files::{self, FileError},
    lock::{DirLock, LockError},
};
use axum::{Json, routing::get};
use graph_server::{
    Capacity, Registry, RegistryError, Service, ServiceError,
    http::{Guard, Guarded, Metrics, StreamLimit, single_page},
    langgraph::LangGraphApi,
};
use utoipa::OpenApi;

use self::{app_state::AppState, runner::Sessions};
use crate::{
    Limits,
    graph::Deps,
    models::{ModelChoice, RunBudget},
    run::SandboxConfig,
};

#[derive(Debug)]
pub struct Options {
    /// Directory that contains one subdirectory per job.
    pub runs: PathBuf,
    /// The model that writes programs.
    pub choice: ModelChoice,
    /// Sandbox configuration, stored with each job.
    pub sandbox: SandboxConfig,
    /// Dependencies of all sessions.
    pub deps: Deps,
    /// Default limits for an execution. A request may set its own timeout and a lower memory limit. It cannot set the
    /// CPU time limit. If `cpu_time` is `None`, the CPU time limit of a job equals its timeout.
    pub limits: Limits,
    /// Maximum number of attempts for a job whose request does not set it.
    pub max_attempts: u32,
    /// Budget for a job whose request does not set one. A request can only set a lower budget.
    pub budget: RunBudget,
    /// Maximum numbers of running jobs and of queued jobs.
    pub capacity: Capacity,
    /// Maximum number of concurrent event streams.
    pub streams: usize,
    /// Access control and rate limits.
    pub guard: Guard,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    #[error(transparent)]
    Registry(#[from] RegistryError),
    #[error(transparent)]
    Service(#[from] ServiceError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("another server is using {}; stop it, or choose another directory with --runs", .0.display())]
    DirLocked(PathBuf),
    #[error(
        "cannot open LangGraph's API: {0}; move the files `langgraph.db` and `threads.db` out of the jobs directory"
    )]
    LangGraph(Box<dyn Error + Send + Sync>),
}

#[derive(OpenApi)]
#[openapi(info(
    title = "agent-sandbox",
    description = "Solves tasks with programs: a model writes a program, a sandbox runs it, and a critic explains failures until it works."
))]
struct ApiDoc;

/// Opens the service, resumes unfinished jobs and returns the service, LangGraph's API for it, and the routes of both.
pub async fn open(options: Options) -> Result<(Service, LangGraphApi, Guarded), ServeError> {
    files::create_dir(&options.runs)?;
    // Locks the directory, because a second server would resume the jobs that this server is running.
    let lock = DirLock::exclusive(&options.runs).map_err(|error| match error {
        LockError::Held(dir) => ServeError::DirLocked(dir),
        LockError::File(error) => ServeError::File(error),
    })?;
    let registry = Registry::open(options.runs.join("runs.db"))?;
    let sessions = Sessions { runs: options.runs, deps: options.deps };
    let service = Service::open(registry, Arc::new(sessions.clone()), options.capacity).await?;
    let metrics = Metrics::default();
    let state = AppState {
        service: service.clone(),
        sessions,
        streams: StreamLimit::new(options.streams, metrics.clone()),
        metrics: metrics.clone(),
        choice: options.choice,
        sandbox: Arc::new(options.sandbox),
        limits: options.limits,
        max_attempts: options.max_attempts,
        budget: options.budget,
        since: Instant::now(),
        _lock: Arc::new(lock),
    };
    let langgraph = langgraph::open(&state).await.map_err(ServeError::LangGraph)?;
    let (locked, mut locked_api) = routes::locked().with_state(state.clone()).split_for_parts();
    options.guard.add_security_schemes(&mut locked_api);
    let (open, mut api) = routes::open().with_state(state).split_for_parts();
    api.merge(locked_api);
    let mut document = ApiDoc::openapi().merge_from(api);
    Guard::add_error_responses(&mut document);
    let open = open
        .route("/openapi.json", get(move || async move { Json(document) }))
        .merge(single_page(page::file))
        .nest("/langgraph", langgraph.open_routes());
    let locked = locked.nest("/langgraph", langgraph.routes());
    Ok((service, langgraph, options.guard.wrap(open, locked, metrics)))
}
