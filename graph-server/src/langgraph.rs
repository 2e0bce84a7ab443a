//! LangGraph's HTTP API: threads, runs, assistants and event streams for LangGraph's own clients.
//!
//! Any graph can be served. The server compiles it with its own checkpointer and store:
//!
//! ```standalone_crate
//! use std::sync::Arc;
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
//! # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # std::env::set_current_dir(&dir)?;
//! let database = Sqlite::open("threads.db")?;
//! let saver = Arc::new(SqliteSaver::new(&database));
//! let store = Arc::new(SqliteStore::new(&database));
//! let essays = StateGraph::<Essay>::new().node(write).edge(START, write);
//! let graphs = Graphs::new(saver, store).add("essays", essays, Schemas::default())?;
//! let api = LangGraphApi::open(graphs, "api.db").await?;
//! let guarded = Guard::new().wrap(api.open_routes(), api.routes(), api.metrics());
//! let address = "127.0.0.1:8123";
//! # let address = "127.0.0.1:0";
//! let listener = tokio::net::TcpListener::bind(address).await?;
//! let signal = std::future::pending::<()>();
//! # let signal = async {};
//! let shutdown = async {
//!     signal.await;
//!     api.shut_down().await;
//! };
//! serve_until(listener, guarded, shutdown).await?;
//! # Ok(()) }
//! ```

mod access;
mod any_graph;
mod assistants;
mod authorize;
mod cancellation;
mod database;
mod document;
mod drawing;
mod edit;
mod error;
mod executor;
mod executor_graph;
mod graphs;
mod id;
mod json_filter;
mod manager;
mod openapi;
mod operations;
mod position;
mod records;
mod request;
mod required_access;
mod retry;
mod routes;
mod schemas;
mod service_graph;
mod state_json;
mod storage;
mod store_area;
mod stream;
mod time;
mod trace_context;
mod typed_graph;
mod view;
mod webhook;

use std::{path::Path, sync::Arc};

use axum::{Router, middleware};

pub use self::{
    authorize::{AccessRequest, Action, Authorize, Decision, Resource},
    error::NamedError,
    executor::{ExecutorError, ExecutorInput, ExecutorOutcome, ExecutorRun, RunExecutor},
    graphs::{Graphs, UnknownGraphError},
    schemas::Schemas,
    service_graph::{ServiceRuns, service_graph},
};
use self::{manager::Manager, storage::Storage, webhook::Webhooks};
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
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("api.db");
/// let essays = StateGraph::<Essay>::new().node(write).edge(START, write);
/// let graphs = Graphs::in_memory().add("essays", essays, Schemas::default())?;
/// let api = LangGraphApi::open(graphs, path).await?;
///
/// // Pass the routes to `Guard::wrap` and `serve_until`. A test can call them directly:
/// let request = Request::post("/runs/wait")
///     .header("content-type", "application/json")
///     .body(Body::from(r#"{"assistant_id": "essays", "input": {"topic": "tea"}}"#))?;
/// let response = api.routes().oneshot(request).await?;
/// let body = axum::body::to_bytes(response.into_body(), 10_000).await?;
/// assert_eq!(body, r#"{"text":"On tea","topic":"tea"}"#);
/// api.shut_down().await;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct LangGraphApi {
    manager: Arc<Manager>,
    authorizer: Option<Arc<dyn Authorize>>,
}

/// Options of the API.
///
/// ```
/// use graph_server::langgraph::ApiOptions;
///
/// let options = ApiOptions::default().max_concurrent_runs(64).private_webhooks(true);
/// assert_eq!(options.max_concurrent_runs, 64);
/// ```
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ApiOptions {
    /// Whether webhooks may be sent to loopback and private addresses. Set it to `false` if clients are not trusted,
    /// because a client could otherwise reach services inside the server's network.
    pub private_webhooks: bool,
    /// Maximum number of runs that this process executes at a time. Other runs wait in the queue, where another replica
    /// can claim them.
    pub max_concurrent_runs: usize,
}

impl Default for ApiOptions {
    fn default() -> Self {
        Self { private_webhooks: false, max_concurrent_runs: 256 }
    }
}

impl ApiOptions {
    /// Sets the maximum number of runs that this process executes at a time. 0 counts as 1.
    #[must_use]
    pub fn max_concurrent_runs(mut self, runs: usize) -> Self {
        self.max_concurrent_runs = runs.max(1);
        self
    }

    /// Sets whether webhooks may be sent to loopback and private addresses.
    #[must_use]
    pub fn private_webhooks(mut self, allowed: bool) -> Self {
        self.private_webhooks = allowed;
        self
    }
}

/// The error returned when the API cannot be opened.
#[derive(thiserror::Error)]
#[error("cannot open the database of the API: {0}")]
pub struct OpenApiError(String);

graph_core::readable_debug!(OpenApiError);

impl LangGraphApi {
    /// Opens the API with a SQLite database of threads, runs and assistants at `path`, and resumes the runs that were
    /// active when an earlier process ended. Only one process can use the database.
    pub async fn open(graphs: Graphs, path: impl AsRef<Path>) -> Result<Self, OpenApiError> {
        Self::open_with(graphs, path, ApiOptions::default()).await
    }

    /// Opens the API like [`open`](Self::open), with options.
    pub async fn open_with(
        graphs: Graphs,
        path: impl AsRef<Path>,
        options: ApiOptions,
    ) -> Result<Self, OpenApiError> {
        let storage = storage::open(path.as_ref());
        let storage = storage.map_err(|error| OpenApiError(error.to_string()))?;
        Self::start(graphs, storage, options).await
    }

    /// Opens the API with a PostgreSQL database at `postgresql://user:password@host:port/database`, which several
    /// replicas can share. The tables are in the schema `graph_server`, and are created if they are missing.
    ///
    /// The replicas share the runs: each run is executed by one replica, and every replica can stream, join and cancel
    /// it. If a replica is killed, the others resume its runs within seconds. All replicas must host the same graphs,
    /// with a checkpointer and a store that they share too, such as those of `graph-store` for PostgreSQL:
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use graph_core::{START, State, StateGraph};
    /// use graph_server::langgraph::{ApiOptions, Graphs, LangGraphApi, Schemas};
    /// use graph_store::{Postgres, PostgresSaver, PostgresStore};
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    /// # struct Essay {
    /// #     topic: String,
    /// #     text: String,
    /// # }
    /// # async fn write(essay: &Essay) -> EssayUpdate {
    /// #     Essay::update().text(format!("On {}", essay.topic))
    /// # }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let url = "postgresql://graphs:secret@db.example.org/graphs";
    /// # let Some(fresh) = graph_tests::postgres::fresh_database() else { return Ok(()) };
    /// # let url = &fresh;
    /// let database = Postgres::connect(url).await?;
    /// let saver = Arc::new(PostgresSaver::new(&database));
    /// let store = Arc::new(PostgresStore::new(&database));
    /// let essays = StateGraph::<Essay>::new().node(write).edge(START, write);
    /// let graphs = Graphs::new(saver, store).add("essays", essays, Schemas::default())?;
    /// let api = LangGraphApi::connect(graphs, url, ApiOptions::default()).await?;
    /// # api.shut_down().await;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "postgres")]
    pub async fn connect(
        graphs: Graphs,
        url: &str,
        options: ApiOptions,
    ) -> Result<Self, OpenApiError> {
        let storage = storage::connect(url).await;
        let storage = storage.map_err(|error| OpenApiError(error.to_string()))?;
        Self::start(graphs, storage, options).await
    }

    async fn start(
        graphs: Graphs,
        storage: Storage,
        options: ApiOptions,
    ) -> Result<Self, OpenApiError> {
        let webhooks = Webhooks { allow_private: options.private_webhooks };
        let manager = Manager::new(graphs, storage, webhooks, options.max_concurrent_runs);
        let created = assistants::create_system_assistants(&manager.graphs, &manager.database);
        created.await.map_err(|error| OpenApiError(error.to_string()))?;
        manager.start().await.map_err(|error| OpenApiError(error.to_string()))?;
        routes::start_timer(&manager);
        Ok(Self { manager, authorizer: None })
    }

    /// Calls `authorizer` for each request of a client. Without an authorizer, only scopes and owners restrict access.
    #[must_use]
    pub fn authorizer(mut self, authorizer: impl Authorize + 'static) -> Self {
        self.authorizer = Some(Arc::new(authorizer));
        self
    }

    /// Returns the routes that need no credentials: `/ok`, `/info`, `/openapi.json` and `/docs`.
    pub fn open_routes(&self) -> Router {
        routes::open_routes(self.manager.clone())
    }

    /// Returns the routes of the API.
    pub fn routes(&self) -> Router {
        let routes = routes::routes(self.manager.clone());
        match &self.authorizer {
            None => routes,
            Some(authorizer) => routes
                .layer(middleware::from_fn_with_state(authorizer.clone(), access::add_authorizer)),
        }
    }

    /// Returns the metrics that the route `/metrics` shows. Pass them to [`Guard::wrap`](crate::http::Guard::wrap), so
    /// that the guard counts requests in them.
    pub fn metrics(&self) -> Metrics {
        self.manager.metrics.clone()
    }

    /// Stops all runs of this process. They continue on another replica, or when the API is opened again.
    pub async fn shut_down(&self) {
        self.manager.shut_down().await;
    }
}
