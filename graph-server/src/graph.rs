//! Any compiled graph behind HTTP: runs on threads, their events, states and histories, answers to their questions.
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
//! // Threads outlive the server as the list of runs does, so that runs go on after a restart.
//! let essays = essays.checkpointer(SqliteSaver::open("threads.db")?).compile()?;
//! let registry = Registry::open("runs.db")?;
//! let graphs = Graphs::new(registry.clone()).add("essays", essays, || ());
//! let service = Service::open(registry, Arc::new(graphs.clone()), Capacity::default()).await?;
//! let metrics = Metrics::default();
//! let (locked, document) = routes(graphs, service.clone(), 1000, metrics.clone());
//! let open = Router::new()
//!     .route("/health", get(async || "ok"))
//!     .route("/openapi.json", get(async move || Json(document)));
//! let guarded = Guard::new().around(open, locked, metrics);
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:8000").await?;
//! serve(listener, guarded, service, Duration::from_secs(5), std::future::pending()).await?;
//! # Ok(())
//! # }
//! ```

mod routes;
mod served;

use std::{collections::BTreeMap, fmt, io, sync::Arc};

use async_trait::async_trait;
use graph_core::{CompiledGraph, Mode, State};
use rusqlite::params;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use routes::routes;

use self::served::{Served, Typed};
use crate::{
    registry::Registry,
    run::{RunEvent, RunInfo},
    runner::{Ended, Failure, Runner, Teller},
};

/// Compiled graphs, by name, as runs of a [`Service`](crate::Service).
///
/// Events lie in the service's own file. A step that a crash interrupted runs again, and then tells again what it does:
/// as new events, with new numbers.
#[derive(Clone)]
pub struct Graphs {
    registry: Registry,
    served: BTreeMap<String, Arc<dyn Served>>,
}

impl fmt::Debug for Graphs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.served.keys()).finish()
    }
}

/// What a run of a graph is given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Given {
    graph: String,
    thread: String,
    input: Map<String, Value>,
    modes: Vec<Mode>,
}

/// Answers to the questions of a run, by their ids.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Answers {
    #[serde(default)]
    answers: Map<String, Value>,
}

impl Graphs {
    /// No graphs yet; their events go where the runs are listed.
    pub fn new(registry: Registry) -> Self {
        Self { registry, served: BTreeMap::new() }
    }

    /// One more graph. It needs a checkpointer; each run gets what its nodes depend on from `deps`.
    #[must_use]
    pub fn add<S: State, C: Send + Sync + 'static>(
        mut self,
        name: impl Into<String>,
        graph: CompiledGraph<S, C>,
        deps: impl Fn() -> C + Send + Sync + 'static,
    ) -> Self {
        self.served.insert(name.into(), Arc::new(Typed { graph, deps: Box::new(deps) }));
        self
    }

    fn get(&self, name: &str) -> Option<&Arc<dyn Served>> {
        self.served.get(name)
    }

    /// Whether a run has told anything yet.
    fn has_begun(&self, run: &str) -> bool {
        self.events(run, 0, 1).is_ok_and(|it| !it.is_empty())
    }

    /// Stores events under the numbers that follow those of the run.
    async fn store(&self, run: &str, events: Vec<Value>) -> Result<Vec<RunEvent>, Failure> {
        let (registry, run) = (self.registry.clone(), run.to_owned());
        let stored = tokio::task::spawn_blocking(move || append(&registry, &run, events)).await;
        let failed =
            |error: &dyn fmt::Display| Failure(format!("events cannot be stored: {error}"));
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
    async fn go(&self, run: &RunInfo, teller: &Teller) -> Result<Ended, Failure> {
        let given: Given = serde_json::from_value(run.input.clone())
            .map_err(|error| Failure(format!("what the run was given cannot be read: {error}")))?;
        let Some(graph) = self.get(&given.graph) else {
            return Err(Failure(format!("this server has no graph `{}`", given.graph)));
        };
        let answers: Answers = serde_json::from_value(run.order.clone()).unwrap_or_default();
        graph.go(self, &run.id, given, answers.answers, teller).await
    }

    fn events(&self, run: &str, after: u64, most: usize) -> io::Result<Vec<RunEvent>> {
        let connection = self.registry.lock();
        let read = || -> rusqlite::Result<Vec<RunEvent>> {
            let sql =
                "SELECT seq, data FROM events WHERE run = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3";
            let mut statement = connection.prepare_cached(sql)?;
            let (after, most) = (i64::try_from(after), i64::try_from(most));
            let (after, most) = (after.unwrap_or(i64::MAX), most.unwrap_or(i64::MAX));
            let event = |row: &rusqlite::Row<'_>| {
                let (seq, data): (i64, String) = (row.get(0)?, row.get(1)?);
                Ok(RunEvent { seq: seq.unsigned_abs(), data: data.into() })
            };
            statement.query_map(params![run, after, most], event)?.collect()
        };
        read().map_err(io::Error::other)
    }
}
