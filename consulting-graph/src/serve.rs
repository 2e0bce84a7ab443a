//! The pipeline behind HTTP, with server-sent events, and its page: `consulting serve`.
//!
//! Every run lies in a folder like any other run, so that `consulting resume`, `replay` and `diff` work on it too, and
//! what they do to a run that rests is seen by who asks for it here. A list of all runs, `runs.db`, lies beside them;
//! after a restart the server goes on with those that were not finished, and lists those that were made without it.

mod adopt;
mod desk;
mod meters;
mod page;
mod results;
mod routes;
mod runner;
mod trace;
mod wire;

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use axum::{Json, extract::State, http::HeaderMap, response::Response, routing::get};
use chrono::NaiveDate;
use graph_core::MemorySaver;
use graph_server::{
    Capacity, Registry, RegistryError, Service, ServiceError,
    http::{EventStreams, Guard, Guarded, Metrics, Problem, ProblemBody, page},
};
use sandbox_vm::Isolation;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use utoipa::OpenApi;
use utoipa_axum::{router::OpenApiRouter, routes};

use self::{desk::Desk, meters::Meters, runner::Folders, wire::Setup};
use crate::{
    config::Config,
    data::From,
    debate,
    models::{Choice, Limit},
    pipeline,
    run::{RunProblem, new},
};

/// What a server is given.
#[derive(Debug, Clone)]
pub struct Options {
    /// The folder of all runs.
    pub runs: PathBuf,
    /// The configuration of new runs, as it stands in its file.
    pub config: String,
    /// Who speaks in new runs.
    pub choice: Choice,
    /// Where companies are read from.
    pub data: From,
    /// The day of the knowledge, where it is not the day of each run.
    pub as_of: Option<NaiveDate>,
    /// Debates at once in a run, where a client says nothing.
    pub concurrency: usize,
    /// How much isolation debates need.
    pub isolation: Isolation,
    /// The one sandbox to use, by name.
    pub backend: Option<String>,
    /// How many runs are worked on at once, and wait.
    pub capacity: Capacity,
    /// How many readers of events there may be at once.
    pub streams: usize,
    /// What a run may spend at most, whatever a client says.
    pub most: Limit,
    /// Who may ask, and how much.
    pub guard: Guard,
}

/// Why a server cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeProblem {
    /// New runs could not be made, or the graphs do not compile.
    #[error(transparent)]
    Run(#[from] RunProblem),
    /// The list of runs cannot be used.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The service cannot be opened.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// Another server has the folder.
    #[error("another server is at work in {}; stop it, or give another folder with --runs", .0.display())]
    Taken(PathBuf),
    /// The folder of runs, or a file in it, cannot be used.
    #[error("{} cannot be used: {source}; give another folder of runs with --runs", path.display())]
    File {
        /// The folder or the file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "consulting",
        description = "From a ticker to ranked strategic moves that were defended in debate."
    ),
    tags((name = "runs", description = "Runs: started, watched, stopped, gone on with, compared"),
        (name = "server", description = "The server itself"))
)]
struct Document;

/// Opens the service, goes on with unfinished runs, and gives all routes.
pub async fn open(options: Options) -> Result<(Service, Guarded), ServeProblem> {
    new::check(&options.config, &options.choice, options.most)?;
    let in_runs = |source| ServeProblem::File { path: options.runs.clone(), source };
    fs::create_dir_all(&options.runs).map_err(in_runs)?;
    let lock = lock(&options.runs)?;
    let registry = Registry::open(options.runs.join("runs.db"))?;
    adopt::all(&registry, &options.runs).map_err(in_runs)?;
    let folders = Folders {
        runs: options.runs,
        isolation: options.isolation,
        backend: options.backend,
        most: options.most,
    };
    let runner = Arc::new(folders.clone());
    let service = Service::open(registry.clone(), runner, options.capacity).await?;
    let metrics = Metrics::default();
    let desk = Desk {
        service: service.clone(),
        registry,
        folders,
        streams: EventStreams::new(options.streams, metrics.clone()),
        metrics: metrics.clone(),
        config: options.config.into(),
        choice: options.choice,
        data: options.data,
        as_of: options.as_of,
        concurrency: options.concurrency,
        guard: Arc::new(options.guard.clone()),
        _lock: Arc::new(lock),
        meters: Meters::default(),
        replaying: Arc::default(),
        forking: Arc::new(Semaphore::new(desk::FORKS)),
    };
    let locked = routes::routes().routes(routes!(graph)).routes(routes!(prometheus));
    let (locked, mut locked_api) = locked.with_state(desk.clone()).split_for_parts();
    options.guard.describe(&mut locked_api);
    let open =
        OpenApiRouter::new().routes(routes!(setup)).routes(routes!(ready)).routes(routes!(health));
    let (open, mut api) = open.with_state(desk).split_for_parts();
    api.merge(locked_api);
    let document = Document::openapi().merge_from(api);
    let open = open
        .route("/openapi.json", get(move || async move { Json(document) }))
        .merge(page(page::file));
    Ok((service, options.guard.around(open, locked, metrics)))
}

/// Takes the folder for this server: two would each think that the other's runs are nobody's.
fn lock(runs: &Path) -> Result<File, ServeProblem> {
    let path = runs.join("lock");
    let file = File::options().create(true).append(true).open(&path);
    let locked = file.map_err(TryLockError::Error).and_then(|file| {
        file.try_lock()?;
        Ok(file)
    });
    locked.map_err(|error| match error {
        TryLockError::WouldBlock => ServeProblem::Taken(runs.to_owned()),
        TryLockError::Error(source) => ServeProblem::File { path, source },
    })
}

/// What a client needs to know before it asks for anything else. Without a key, where one is needed, that is no more
/// than that one is needed.
#[utoipa::path(get, path = "/api/setup", tag = "server", responses(
    (status = 200, description = "Who would speak, who takes part", body = Setup),
    (status = "4XX", description = "Too many requests, or a strange host", body = ProblemBody)))]
async fn setup(State(desk): State<Desk>, headers: HeaderMap) -> Result<Json<Setup>, Problem> {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let setup = Setup { needs_key: desk.guard.needs_key(), version, ..Setup::default() };
    if !desk.guard.lets_in(&headers) {
        return Ok(Json(setup));
    }
    let config = Config::parse(&desk.config).map_err(|error| Problem::internal(&error))?;
    let data = match desk.data {
        From::Synthetic => "synthetic",
        From::Edgar { .. } | From::EdgarOnline(_) => "edgar",
        From::Dir { .. } => "dir",
    };
    Ok(Json(Setup {
        provider: Some(desk.choice.provider.clone()),
        model: desk.choice.model.clone(),
        data: Some(data.to_owned()),
        concurrency: Some(desk.concurrency),
        config: Some((&config).into()),
        ..setup
    }))
}

/// The graphs that a run is made of.
#[utoipa::path(get, path = "/api/graph", tag = "server", responses(
    (status = 200, description = "`pipeline` and `debate`, as nodes and edges", body = Object),
    (status = "4XX", description = "No key", body = ProblemBody)))]
async fn graph() -> Result<Json<Value>, Problem> {
    let saver = Arc::new(MemorySaver::new());
    let internal = |error: graph_core::BuildError| Problem::internal(&error);
    let pipeline = pipeline::graph(saver.clone()).map_err(internal)?.to_json(0);
    let debate = debate::graph(saver).map_err(internal)?.to_json(0);
    Ok(Json(json!({ "pipeline": pipeline, "debate": debate })))
}

/// Whether the server is there at all.
#[utoipa::path(get, path = "/health", tag = "server", responses(
    (status = 200, description = "It is", body = String),
    (status = "4XX", description = "Too many requests, or a strange host", body = ProblemBody)))]
async fn health() -> &'static str {
    "ok\n"
}

/// Whether the server takes runs.
#[utoipa::path(get, path = "/ready", tag = "server", responses(
    (status = 200, description = "It does", body = String),
    (status = "4XX", description = "Too many requests, or a strange host", body = ProblemBody),
    (status = 503, description = "It does not", body = ProblemBody)))]
async fn ready(State(desk): State<Desk>) -> Result<&'static str, Problem> {
    desk.service.ready().await?;
    Ok("ready\n")
}

/// Counts for Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "server", responses(
    (status = 200, description = "The counts", body = String, content_type = "application/openmetrics-text"),
    (status = "4XX", description = "No key", body = ProblemBody)))]
async fn prometheus(State(desk): State<Desk>) -> Result<Response, Problem> {
    desk.metrics.render(&desk.service).await
}
