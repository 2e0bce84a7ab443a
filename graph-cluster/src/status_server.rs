//! The status and the metrics of a cluster over HTTP.

#[cfg(feature = "server")]
use std::io;

use axum::{
    Json, Router,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{Html, IntoResponse, Response},
    routing::get,
};
#[cfg(feature = "server")]
use graph_server::{
    http::{Guard, Metrics},
    serve_until,
};
#[cfg(feature = "server")]
use tokio::net::TcpListener;

use crate::{client::Client, error::ClusterError, status_page::status_page};

/// Content type of the metrics: the OpenMetrics text format.
const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Returns routes for operators: `GET /` (a page with the workers and what they execute), `GET /status` (the same as
/// JSON), `GET /metrics` (for Prometheus) and `GET /health` (whether the database answers).
///
/// The routes do not check who calls them, and nothing limits their callers. Serve them on an address that only
/// operators can reach, or use `serve_status`.
///
/// ```
/// use graph_cluster::{Client, PostgresQueue, RunStore, status_routes};
///
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let url = "postgresql://graphs:secret@db.example.org/graphs";
/// # let Some(fresh) = graph_tests::postgres::fresh_database() else { return Ok(()) };
/// # let url = &fresh;
/// let client = Client::new(RunStore::connect(url).await?, PostgresQueue::new());
/// let routes = axum::Router::new().nest("/cluster", status_routes(client));
/// # let _ = routes;
/// # Ok(()) }
/// ```
pub fn status_routes(client: Client) -> Router {
    operator_routes(client.clone()).merge(health_route(client))
}

/// Serves the [`status_routes`] until `shutdown` completes. The number of connections and the rate of requests are
/// limited as in every server (see [`Guard`]). The guard decides who may call the routes, except `GET /health`, which
/// is open to everyone.
///
/// Fails if other machines can reach the address of `listener` and the guard has neither API keys nor authenticators.
///
/// ```no_run
/// use graph_cluster::{Client, PostgresQueue, RunStore, serve_status, termination};
/// use graph_server::http::{Guard, KeyHash};
///
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = RunStore::connect("postgresql://graphs:secret@db.example.org/graphs").await?;
/// let guard = Guard::new().key(KeyHash::of_checked(&std::env::var("STATUS_KEY")?)?);
/// let listener = tokio::net::TcpListener::bind("0.0.0.0:9100").await?;
/// serve_status(listener, Client::new(store, PostgresQueue::new()), guard, termination()).await?;
/// # Ok(()) }
/// ```
#[cfg(feature = "server")]
pub async fn serve_status(
    listener: TcpListener,
    client: Client,
    guard: Guard,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let (open, locked) = (health_route(client.clone()), operator_routes(client));
    serve_until(listener, guard.wrap(open, locked, Metrics::default()), shutdown).await
}

fn operator_routes(client: Client) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/status", get(status))
        .route("/metrics", get(metrics))
        .with_state(client)
}

fn health_route(client: Client) -> Router {
    Router::new().route("/health", get(health)).with_state(client)
}

async fn page(State(client): State<Client>) -> Result<Html<String>, Unavailable> {
    Ok(Html(status_page(&client.status().await?)))
}

async fn status(State(client): State<Client>) -> Result<Response, Unavailable> {
    Ok(Json(client.status().await?).into_response())
}

async fn metrics(State(client): State<Client>) -> Result<Response, Unavailable> {
    Ok(([(CONTENT_TYPE, METRICS_TYPE)], client.metrics().await?).into_response())
}

async fn health(State(client): State<Client>) -> Result<&'static str, Unavailable> {
    client.ping().await?;
    Ok("ok")
}

/// The database cannot be read.
struct Unavailable(ClusterError);

impl From<ClusterError> for Unavailable {
    fn from(error: ClusterError) -> Self {
        Self(error)
    }
}

impl IntoResponse for Unavailable {
    fn into_response(self) -> Response {
        // The error may name hosts and users, so only the log contains it.
        tracing::warn!(error = %self.0, "cannot read the status of the cluster");
        (StatusCode::SERVICE_UNAVAILABLE, "cannot read the cluster's database").into_response()
    }
}
