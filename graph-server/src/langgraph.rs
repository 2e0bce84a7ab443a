//! LangGraph's HTTP API: threads, runs, assistants and event streams for LangGraph's own clients.
//!
//! Any graph can be served. The server compiles it with its own checkpointer and store:
//!
//! ```no_run
//! use std::{sync::Arc, time::Duration};
//!
//! use graph_core::{START, State, StateGraph};
//! use graph_server::{
//!     http::Guard,
//!     langgraph::{Graphs, LangGraphApi, Schemas},
//!     serve_until,
//! };
//! use graph_store::{Sqlite, SqliteSaver, SqliteStore};
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
//! let database = Sqlite::open("threads.db")?;
//! let saver = Arc::new(SqliteSaver::new(&database));
//! let store = Arc::new(SqliteStore::new(&database));
//! let essays = StateGraph::<Essay>::new().node(write).edge(START, write);
//! let graphs = Graphs::new(saver, store).add("essays", essays, Schemas::default())?;
//! let api = LangGraphApi::open(graphs, "api.db")?;
//! let guarded = Guard::new().wrap(api.open_routes(), api.routes(), api.metrics());
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:8123").await?;
//! let shutdown = async {
//!     std::future::pending::<()>().await;
//!     api.shut_down().await;
//! };
//! serve_until(listener, guarded, shutdown).await?;
//! # Ok(())
//! # }
//! ```

mod access;
mod any_graph;
mod assistants;
mod database;
mod drawing;
mod edit;
mod error;
mod graphs;
mod id;
mod manager;
mod openapi;
mod records;
mod request;
mod routes;
mod schemas;
mod state_json;
mod stream;
mod time;
mod webhook;

use std::{path::Path, sync::Arc};

use axum::Router;

pub use self::{error::NamedError, graphs::Graphs, schemas::Schemas};
use self::{manager::Manager, webhook::Webhooks};
use crate::http::Metrics;

/// LangGraph's API for a set of graphs.
///
/// ```
/// use axum::{body::Body, http::Request};
/// use graph_core::{START, State, StateGraph};
/// use graph_server::langgraph::{Graphs, LangGraphApi, Schemas};
/// use serde::{Deserialize, Serialize};
/// use tower::ServiceExt;
///
/// #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
/// struct Essay {
///     topic: String,
///     text: String,
/// }
///
/// async fn write(essay: &Essay) -> EssayUpdate {
///     Essay::update().text(format!("On {}", essay.topic))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("api.db");
/// let essays = StateGraph::<Essay>::new().node(write).edge(START, write);
/// let graphs = Graphs::in_memory().add("essays", essays, Schemas::default())?;
/// let api = LangGraphApi::open(graphs, path)?;
///
/// // Pass the routes to `Guard::wrap` and `serve_until`. A test can call them directly:
/// let request = Request::post("/runs/wait")
///     .header("content-type", "application/json")
///     .body(Body::from(r#"{"assistant_id": "essays", "input": {"topic": "tea"}}"#))?;
/// let response = api.routes().oneshot(request).await?;
/// let body = axum::body::to_bytes(response.into_body(), 10_000).await?;
/// assert_eq!(body, r#"{"text":"On tea","topic":"tea"}"#);
/// api.shut_down().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct LangGraphApi {
    manager: Arc<Manager>,
}

/// Options of the API.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct ApiOptions {
    /// Whether webhooks may have loopback and private addresses. If clients are not trusted, it should be `false`,
    /// because a client could otherwise reach services inside the server's network.
    pub private_webhooks: bool,
}

impl ApiOptions {
    /// Sets whether webhooks may have loopback and private addresses.
    #[must_use]
    pub fn private_webhooks(mut self, allowed: bool) -> Self {
        self.private_webhooks = allowed;
        self
    }
}

/// The error returned when the API cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open the database of the API: {0}")]
pub struct OpenApiError(String);

impl LangGraphApi {
    /// Opens the API with a database of threads, runs and assistants at `path`, and resumes the runs that were active
    /// when an earlier process ended. Must be called within a tokio runtime.
    pub fn open(graphs: Graphs, path: impl AsRef<Path>) -> Result<Self, OpenApiError> {
        Self::open_with(graphs, path, ApiOptions::default())
    }

    /// Opens the API like [`open`](Self::open), with options.
    pub fn open_with(
        graphs: Graphs,
        path: impl AsRef<Path>,
        options: ApiOptions,
    ) -> Result<Self, OpenApiError> {
        let failed = |error: &dyn std::fmt::Display| OpenApiError(error.to_string());
        let webhooks = Webhooks { allow_private: options.private_webhooks };
        let manager = Manager::open(graphs, path.as_ref(), webhooks);
        let manager = manager.map_err(|error| failed(&error))?;
        let created = assistants::create_system_assistants(&manager.graphs, &manager.database);
        created.map_err(|error| failed(&error))?;
        let resumed = manager.recover().map_err(|error| failed(&error))?;
        if resumed > 0 {
            tracing::info!(resumed, "resumed the runs of an earlier process");
        }
        routes::start_timer(&manager);
        Ok(Self { manager })
    }

    /// Returns the routes that need no credentials: `/ok`, `/info`, `/openapi.json` and `/docs`.
    pub fn open_routes(&self) -> Router {
        routes::open_routes(self.manager.clone())
    }

    /// Returns the routes of the API.
    pub fn routes(&self) -> Router {
        routes::routes(self.manager.clone())
    }

    /// Returns the metrics that the route `/metrics` shows. Pass them to [`Guard::wrap`](crate::http::Guard::wrap), so
    /// that they include the requests.
    pub fn metrics(&self) -> Metrics {
        self.manager.metrics.clone()
    }

    /// Stops all runs. They continue when the API is opened again.
    pub async fn shut_down(&self) {
        self.manager.shut_down().await;
    }
}
