//! Serves compiled graphs over HTTP. Clients can start runs on threads, stream their events, read the states and
//! histories of threads, and answer interrupts.
//!
//! ```standalone_crate
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
//! # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # std::env::set_current_dir(&dir)?;
//! let essays = StateGraph::<Essay>::new().node(write).edge(START, write);
//! // Threads are stored on disk like the registry, so runs resume after a restart.
//! let essays = essays.checkpointer(SqliteSaver::open("threads.db")?).compile()?;
//! let registry = Registry::open("runs.db")?;
//! let graphs = Graphs::new(registry.clone()).add("essays", essays, || ());
//! let service = Service::open(registry, Arc::new(graphs.clone()), Capacity::default()).await?;
//! let metrics = Metrics::default();
//! let (locked, mut document) = routes(graphs, service.clone(), 1000, metrics.clone());
//! Guard::add_error_responses(&mut document);
//! let open = Router::new()
//!     .route("/health", get(async || "ok"))
//!     .route("/openapi.json", get(async move || Json(document)));
//! let guarded = Guard::new().wrap(open, locked, metrics);
//! let address = "127.0.0.1:8000";
//! # let address = "127.0.0.1:0";
//! let listener = tokio::net::TcpListener::bind(address).await?;
//! let shutdown = std::future::pending::<()>();
//! # let shutdown = async {};
//! serve(listener, guarded, service, Duration::from_secs(5), shutdown).await?;
//! # Ok(()) }
//! ```

mod any_graph;
mod event_log;
mod graphs;
mod routes;
mod run_config;

pub use graphs::Graphs;
pub use routes::routes;
