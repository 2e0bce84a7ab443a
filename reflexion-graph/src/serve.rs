//! Sessions behind HTTP, with server-sent events: `agent-sandbox serve`.
//!
//! Every job lies in a folder like any other session, so that `agent-sandbox resume` works on it too. A list of all
//! jobs, `runs.db`, lies beside them; after a restart the server goes on with those that were not finished. All jobs
//! share one pool of sandboxes.

mod routes;
mod runner;
mod wire;

use std::{fs, io, path::PathBuf, sync::Arc, time::Instant};

use axum::{Json, routing::get};
use graph_server::{
    Capacity, Registry, RegistryError, Service, ServiceError,
    http::{EventStreams, Guard, Guarded, Metrics},
};
use utoipa::OpenApi;

use self::runner::Sessions;
use crate::{
    Limits,
    graph::Deps,
    models::{Allowance, Choice},
    run::Place,
};

/// What a server is given.
#[derive(Debug)]
pub struct Options {
    /// The folder of all jobs.
    pub runs: PathBuf,
    /// Who writes.
    pub choice: Choice,
    /// Where programs run, as it stands in the jobs' folders.
    pub place: Place,
    /// What the nodes of all sessions work with.
    pub deps: Deps,
    /// What an execution may use, where a client says nothing. No client may say more memory, or anything of the
    /// processor time; the timeout is a default, and a job's processor time where none is said here.
    pub limits: Limits,
    /// Attempts, where a client says nothing.
    pub max_attempts: u32,
    /// What a job may spend, where a client says nothing; no client may say more.
    pub allowance: Allowance,
    /// How many jobs are worked on at once, and wait.
    pub capacity: Capacity,
    /// How many readers of events there may be at once.
    pub streams: usize,
    /// Who may ask, and how much.
    pub guard: Guard,
}

/// Why a server cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeProblem {
    /// The list of jobs cannot be used.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The service cannot be opened.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// The folder of all jobs cannot be used.
    #[error("{}: {source}", path.display())]
    File {
        /// The folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

#[derive(OpenApi)]
#[openapi(info(
    title = "agent-sandbox",
    description = "From a task to a program that ran: written by a model, run in a sandbox, criticised and written again."
))]
struct Document;

/// What the routes share.
#[derive(Clone, Debug)]
struct Desk {
    service: Service,
    sessions: Sessions,
    streams: EventStreams,
    metrics: Metrics,
    choice: Choice,
    place: Arc<Place>,
    limits: Limits,
    max_attempts: u32,
    allowance: Allowance,
    since: Instant,
}

/// Opens the service, goes on with unfinished jobs, and gives all routes.
pub async fn open(options: Options) -> Result<(Service, Guarded), ServeProblem> {
    let in_runs = |source| ServeProblem::File { path: options.runs.clone(), source };
    fs::create_dir_all(&options.runs).map_err(in_runs)?;
    let registry = Registry::open(options.runs.join("runs.db"))?;
    let sessions = Sessions { runs: options.runs, deps: options.deps };
    let service = Service::open(registry, Arc::new(sessions.clone()), options.capacity).await?;
    let metrics = Metrics::default();
    let desk = Desk {
        service: service.clone(),
        sessions,
        streams: EventStreams::new(options.streams, metrics.clone()),
        metrics: metrics.clone(),
        choice: options.choice,
        place: Arc::new(options.place),
        limits: options.limits,
        max_attempts: options.max_attempts,
        allowance: options.allowance,
        since: Instant::now(),
    };
    let (locked, mut locked_api) = routes::locked().with_state(desk.clone()).split_for_parts();
    options.guard.describe(&mut locked_api);
    let (open, mut api) = routes::open().with_state(desk).split_for_parts();
    api.merge(locked_api);
    let document = Document::openapi().merge_from(api);
    let open = open.route("/openapi.json", get(move || async move { Json(document) }));
    Ok((service, options.guard.around(open, locked, metrics)))
}
