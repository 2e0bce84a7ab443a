//! Serves compiled graphs over HTTP. Clients can start runs on threads, stream their events, read the states and
//! histories of threads, and answer interrupts.
//!
//! ```no_run
//! use std::{sync::Arc, time::Duration};
//!
//! use axum::{Json, Router, routing::get};
//! use graph_core::{START, State, StateGraph};
//! use graph_server::{
//!     Capacity, Registry, Service,
//!     graph::{Graphs, routes},
//!     http::{Guard, Metrics},
//!     serve,
//! };
//! use graph_store::sqlite::SqliteSaver;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
//! struct Essay {
//!     topic: String,
//!     text: String,
//! }
//!
//! async fn write(essay: &Essay) -> EssayUpdate {
//!     Essay::update().text(format!("On {}", essay.topic))
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let essays = StateGraph::<Essay>::new().node(write).edge(START, write);
//! // Threads are stored on disk like the registry, so runs resume after a restart.
//! let essays = essays.checkpointer(SqliteSaver::open("threads.db")?).compile()?;
//! let registry = Registry::open("runs.db")?;
//! let graphs = Graphs::new(registry.clone()).add("essays", essays, || ());
//! let service = Service::open(registry, Arc::new(graphs.clone()), Capacity::default()).await?;
//! let metrics = Metrics::default();
//! let (locked, document) = routes(graphs, service.clone(), 1000, metrics.clone());
//! let open = Router::new()
//!     .route("/health", get(async || "ok"))
//!     .route("/openapi.json", get(async move || Json(document)));
//! let guarded = Guard::new().wrap(open, locked, metrics);
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:8000").await?;
//! serve(listener, guarded, service, Duration::from_secs(5), std::future::pending()).await?;
//! # Ok(())
//! # }
//! ```

mod any_graph;
mod routes;

use std::{collections::BTreeMap, fmt, io, sync::Arc};

use async_trait::async_trait;
use graph_core::{CompiledGraph, State, StreamMode};
use rusqlite::params;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use routes::routes;

use self::any_graph::{AnyGraph, TypedGraph};
use crate::{
    registry::Registry,
    run::{RunEvent, RunInfo},
    runner::{EventSender, Runner, RunnerError, RunnerOutcome},
};

/// A set of compiled graphs, identified by name. It is the [`Runner`] for runs of these graphs.
///
/// Events are stored in the registry's database. A step that was interrupted by a crash is executed again and emits
/// its events again, with new sequence numbers.
#[derive(Clone)]
pub struct Graphs {
    registry: Registry,
    graphs: BTreeMap<String, Arc<dyn AnyGraph>>,
}

impl fmt::Debug for Graphs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.graphs.keys()).finish()
    }
}

/// The input of a run, as stored in the registry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct RunConfig {
    graph: String,
    thread: String,
    input: Map<String, Value>,
    modes: Vec<StreamMode>,
}

/// The arguments of a resume request, as stored in the registry: the answers, keyed by interrupt id.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct ResumeArgs {
    #[serde(default)]
    answers: Map<String, Value>,
}

impl Graphs {
    /// Creates an empty set of graphs whose events are stored in `registry`.
    pub fn new(registry: Registry) -> Self {
        Self { registry, graphs: BTreeMap::new() }
    }

    /// Adds a graph, which must have a checkpointer. For each run, `deps` creates the dependencies of the nodes.
    #[must_use]
    pub fn add<S: State, C: Send + Sync + 'static>(
        mut self,
        name: impl Into<String>,
        graph: CompiledGraph<S, C>,
        deps: impl Fn() -> C + Send + Sync + 'static,
    ) -> Self {
        self.graphs.insert(name.into(), Arc::new(TypedGraph { graph, deps: Box::new(deps) }));
        self
    }

    fn get(&self, name: &str) -> Option<&Arc<dyn AnyGraph>> {
        self.graphs.get(name)
    }

    /// Returns whether any events of the run are stored.
    fn has_events(&self, run: &str) -> bool {
        self.events(run, 0, 1).is_ok_and(|it| !it.is_empty())
    }

    /// Stores events under the next sequence numbers of the run, and returns them with these numbers.
    async fn append_events(
        &self,
        run: &str,
        events: Vec<Value>,
    ) -> Result<Vec<RunEvent>, RunnerError> {
        let (registry, run) = (self.registry.clone(), run.to_owned());
        let stored = tokio::task::spawn_blocking(move || append(&registry, &run, events)).await;
        let failed =
            |error: &dyn fmt::Display| RunnerError(format!("cannot store events: {error}"));
        stored.map_err(|error| failed(&error))?.map_err(|error| failed(&error))
    }
}

fn append(
    registry: &Registry,
    run: &str,
    events: Vec<Value>,
) -> Result<Vec<RunEvent>, rusqlite::Error> {
    let mut connection = registry.lock();
    let transaction = connection.transaction()?;
    let sql = "SELECT coalesce(max(seq), 0) FROM events WHERE run = ?1";
    let last: i64 = transaction.query_row(sql, [run], |row| row.get(0))?;
    let mut stored = Vec::new();
    for (seq, event) in (last + 1..).zip(events) {
        let mut numbered = Map::from_iter([("seq".to_owned(), Value::from(seq))]);
        if let Value::Object(event) = event {
            numbered.extend(event);
        }
        let data = Value::Object(numbered).to_string();
        let sql = "INSERT INTO events (run, seq, data) VALUES (?1, ?2, ?3)";
        transaction.prepare_cached(sql)?.execute(params![run, seq, data])?;
        stored.push(RunEvent { seq: seq.unsigned_abs(), data: data.into() });
    }
    transaction.commit()?;
    Ok(stored)
}

#[async_trait]
impl Runner for Graphs {
    async fn execute(
        &self,
        run: &RunInfo,
        sender: &EventSender,
    ) -> Result<RunnerOutcome, RunnerError> {
        let config: RunConfig = serde_json::from_value(run.input.clone())
            .map_err(|error| RunnerError(format!("cannot read the input of the run: {error}")))?;
        let Some(graph) = self.get(&config.graph) else {
            return Err(RunnerError(format!(
                "graph `{}` does not exist on this server",
                config.graph
            )));
        };
        let args: ResumeArgs = serde_json::from_value(run.resume_args.clone()).unwrap_or_default();
        graph.execute(self, &run.id, config, args.answers, sender).await
    }

    fn events(&self, run: &str, after: u64, limit: usize) -> io::Result<Vec<RunEvent>> {
        let connection = self.registry.lock();
        let read = || -> rusqlite::Result<Vec<RunEvent>> {
            let sql =
                "SELECT seq, data FROM events WHERE run = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3";
            let mut statement = connection.prepare_cached(sql)?;
            let (after, limit) = (i64::try_from(after), i64::try_from(limit));
            let (after, limit) = (after.unwrap_or(i64::MAX), limit.unwrap_or(i64::MAX));
            let event = |row: &rusqlite::Row<'_>| {
                let (seq, data): (i64, String) = (row.get(0)?, row.get(1)?);
                Ok(RunEvent { seq: seq.unsigned_abs(), data: data.into() })
            };
            statement.query_map(params![run, after, limit], event)?.collect()
        };
        read().map_err(io::Error::other)
    }
}
