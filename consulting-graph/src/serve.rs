//! The HTTP service of `consulting serve`, with server-sent events and a web page.
//!
//! Every run has an ordinary run directory, so `consulting resume`, `replay` and `diff` work on it too. Results that
//! these commands produce for inactive runs are imported when a client requests the run. The database `runs.db`, next
//! to the run directories, lists all runs. After a restart, the server resumes unfinished runs and imports complete
//! runs that were created without the server.

mod app_state;
mod calls;
mod deletion;
mod external_runs;
mod langgraph;
mod options;
mod page;
mod problem;
mod results;
mod retention;
mod routes;
mod runner;
mod spending_meters;
mod trace;
mod wire;

use std::{error::Error, fs, io, path::PathBuf, sync::Arc};

use app_support::{
    files::FileError,
    lock::{DirLock, LockError},
};
use axum::{Json, extract::State, http::HeaderMap, response::Response, routing::get};
use graph_core::MemorySaver;
use graph_server::{
    Registry, RegistryError, Service, ServiceError,
    http::{Guard, Guarded, Metrics, Problem, ProblemBody, StreamLimit, page},
    langgraph::LangGraphApi,
};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use utoipa::OpenApi;
use utoipa_axum::{router::OpenApiRouter, routes};

pub use options::ServeOptions;

use self::{
    app_state::AppState, runner::PipelineRunner, spending_meters::SpendingMeters, wire::Setup,
};
use crate::{
    config::Config,
    data::{DataOrigin, snapshot},
    debate, pipeline,
    run::{RunError, new_run},
};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    Registry(#[from] RegistryError),
    #[error(transparent)]
    Service(#[from] ServiceError),
    #[error("another server is using {}; stop it, or choose another directory with --runs", .0.display())]
    DirLocked(PathBuf),
    #[error(
        "cannot open LangGraph's API: {0}; move the files `langgraph.db` and `threads.db` out of the runs directory"
    )]
    LangGraph(Box<dyn Error + Send + Sync>),
    #[error("cannot access {}: {source}; choose another directory with --runs", path.display())]
    Io { path: PathBuf, source: io::Error },
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "consulting",
        description = "Turns a ticker into ranked strategic moves, each defended in a debate."
    ),
    tags((name = "runs", description = "Start, watch, cancel, resume, fork and compare runs"),
        (name = "server", description = "Status and settings of the server"))
)]
struct ApiDocument;

/// Opens the service, resumes unfinished runs and returns the service, LangGraph's API for it, and the routes of both.
pub async fn open(options: ServeOptions) -> Result<(Service, LangGraphApi, Guarded), ServeError> {
    new_run::validate(&options.config, &options.choice, options.max_limit)?;
    let io_error = |source| ServeError::Io { path: options.runs_dir.clone(), source };
    fs::create_dir_all(&options.runs_dir).map_err(io_error)?;
    // Locks the directory, because a second server would treat the runs of this server as abandoned.
    let lock = DirLock::exclusive(&options.runs_dir).map_err(|error| match error {
        LockError::Held(dir) => ServeError::DirLocked(dir),
        LockError::File(FileError { path, source }) => ServeError::Io { path, source },
    })?;
    deletion::finish_deletions(&options.runs_dir).map_err(io_error)?;
    let registry = Registry::open(options.runs_dir.join("runs.db"))?;
    external_runs::import_external_runs(&registry, &options.runs_dir).map_err(io_error)?;
    let options = Arc::new(options);
    let runner = Arc::new(PipelineRunner(options.clone()));
    let service = Service::open(registry.clone(), runner, options.capacity).await?;
    let metrics = Metrics::default();
    let app = AppState {
        service: service.clone(),
        registry,
        options: options.clone(),
        streams: StreamLimit::new(options.max_streams, metrics.clone()),
        metrics: metrics.clone(),
        _lock: Arc::new(lock),
        spending_meters: SpendingMeters::default(),
        replaying: Arc::default(),
        forking: Arc::new(Semaphore::new(app_state::CONCURRENT_FORKS)),
        whole_files: Arc::new(Semaphore::new(app_state::CONCURRENT_WHOLE_FILES)),
    };
    if let Some(max_age) = options.max_age {
        retention::retain(app.clone(), max_age).await?;
    }
    app_support::memory::release_periodically();
    let langgraph = langgraph::open(&app, &options.runs_dir).await;
    let langgraph = langgraph.map_err(ServeError::LangGraph)?;
    let protected = routes::routes().routes(routes!(graph)).routes(routes!(prometheus));
    let (protected, mut protected_api) = protected.with_state(app.clone()).split_for_parts();
    options.guard.add_security_schemes(&mut protected_api);
    let public =
        OpenApiRouter::new().routes(routes!(setup)).routes(routes!(ready)).routes(routes!(health));
    let (public, mut api) = public.with_state(app).split_for_parts();
    api.merge(protected_api);
    let mut document = ApiDocument::openapi().merge_from(api);
    Guard::add_error_responses(&mut document);
    let public = public
        .route("/openapi.json", get(move || async move { Json(document) }))
        .merge(page(page::file))
        .nest("/langgraph", langgraph.open_routes());
    let protected = protected.nest("/langgraph", langgraph.routes());
    Ok((service, langgraph, options.guard.clone().wrap(public, protected, metrics)))
}

/// Returns the settings that a client needs first.
///
/// If a required API key is missing, the response contains only `needs_key` and `version`.
#[utoipa::path(get, path = "/api/setup", tag = "server", responses(
    (status = 200, description = "Settings of new runs", body = Setup)))]
async fn setup(State(app): State<AppState>, headers: HeaderMap) -> Result<Json<Setup>, Problem> {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let setup = Setup { needs_key: app.options.guard.needs_key(), version, ..Setup::default() };
    if !app.options.guard.authorizes(&headers) {
        return Ok(Json(setup));
    }
    let config = Config::parse(&app.options.config).map_err(|error| Problem::internal(&error))?;
    let data = match app.options.data {
        DataOrigin::Included => "included",
        DataOrigin::Synthetic => "synthetic",
        DataOrigin::Edgar { .. } | DataOrigin::EdgarOnline(_) => "edgar",
        DataOrigin::Dir { .. } => "dir",
    };
    Ok(Json(Setup {
        provider: Some(app.options.choice.provider.clone()),
        model: app.options.choice.model.clone(),
        data: Some(data.to_owned()),
        included_tickers: Some(snapshot::tickers().map(str::to_owned).collect()),
        concurrency: Some(app.options.concurrency),
        config: Some((&config).into()),
        ..setup
    }))
}

/// Returns the graphs of the pipeline and of the debates.
#[utoipa::path(get, path = "/api/graph", tag = "server", responses(
    (status = 200, description = "`pipeline` and `debate`, as nodes and edges", body = Object)))]
async fn graph() -> Result<Json<Value>, Problem> {
    let saver = Arc::new(MemorySaver::new());
    let internal = |error: graph_core::BuildError| Problem::internal(&error);
    let pipeline = pipeline::graph(saver).map_err(internal)?.to_json(0);
    let debate = debate::graph().map_err(internal)?.to_json(0);
    Ok(Json(json!({ "pipeline": pipeline, "debate": debate })))
}

/// Returns whether the server is alive.
#[utoipa::path(get, path = "/health", tag = "server", responses(
    (status = 200, description = "The server is alive", body = String)))]
async fn health() -> &'static str {
    "ok\n"
}

/// Returns whether the server accepts new runs.
#[utoipa::path(get, path = "/ready", tag = "server", responses(
    (status = 200, description = "The server accepts new runs", body = String),
    (status = 503, description = "The server does not accept new runs", body = ProblemBody)))]
async fn ready(State(app): State<AppState>) -> Result<&'static str, Problem> {
    app.service.check_ready().await?;
    Ok("ready\n")
}

/// Returns metrics for Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "server", responses(
    (status = 200, description = "Metrics in OpenMetrics format", body = String, content_type = "application/openmetrics-text")))]
async fn prometheus(State(app): State<AppState>) -> Result<Response, Problem> {
    app.metrics.render(&app.service).await
}
