//! Accepts connections and shuts down gracefully.

mod admission;
mod connection;
mod permitted_body;
mod write_timeout;

use std::{future::Future, io, time::Duration};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{net::TcpListener, sync::watch, time};

pub(crate) use self::admission::RequestPermit;
use self::{admission::Admission, connection::serve_connection};
use crate::{http::Guarded, service::Service};

/// Maximum time for connections to close after the service has shut down.
const CLOSE_GRACE: Duration = Duration::from_secs(5);

/// Pause after a failed `accept` before the next attempt.
const ACCEPT_RETRY: Duration = Duration::from_millis(200);

/// Maximum number of concurrent connections. The actual limit is lower if the file descriptor limit is low.
const MAX_CONNECTIONS: u64 = 4096;

/// Raises this process's limit on open file descriptors to the maximum that the system allows, and returns the new
/// limit. The default limit is too low for a server with many connections.
pub fn raise_descriptor_limit() -> io::Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
    Ok(limit.maximum.unwrap_or(u64::MAX))
}

/// Serves requests until `shutdown_signal` completes. Then stops accepting runs, gives active runs up to `grace` to
/// finish, and preempts the remaining ones.
///
/// Fails if `listener` is reachable from other machines and the guard has neither API keys nor authenticators.
///
/// ```
/// use std::{sync::Arc, time::Duration};
///
/// use axum::{Json, Router, extract::State, routing::get};
/// use graph_server::{
///     Capacity, Registry, Service,
///     http::{Guard, Metrics, Path, Problem},
///     serve,
/// };
/// use serde_json::Value;
/// use tokio::net::TcpListener;
/// # use std::io;
/// # use async_trait::async_trait;
/// # use graph_server::{EventSender, RunEvent, RunInfo, Runner, RunnerError, RunnerOutcome};
/// #
/// # struct Doubler;
/// #
/// # #[async_trait]
/// # impl Runner for Doubler {
/// #     async fn execute(&self, run: &RunInfo, _: &EventSender) -> Result<RunnerOutcome, RunnerError> {
/// #         Ok(RunnerOutcome::Complete(run.input.clone()))
/// #     }
/// #
/// #     fn events(&self, _: &str, _: u64, _: usize) -> io::Result<Vec<RunEvent>> {
/// #         Ok(Vec::new())
/// #     }
/// # }
///
/// /// Returns the result of a run.
/// async fn result(
///     State(service): State<Service>,
///     Path(id): Path<String>,
/// ) -> Result<Json<Value>, Problem> {
///     Ok(Json(service.get(&id).await?.outcome))
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // `Doubler` is a `Runner`, whose documentation shows it.
/// let service = Service::open(Registry::in_memory()?, Arc::new(Doubler), Capacity::default()).await?;
/// let locked = Router::new().route("/runs/{id}", get(result)).with_state(service.clone());
/// let guarded = Guard::new().wrap(Router::new(), locked, Metrics::default());
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// let shutdown = std::future::pending::<()>();
/// # let shutdown = async {};
/// serve(listener, guarded, service, Duration::from_secs(5), shutdown).await?;
/// # Ok(()) }
/// ```
pub async fn serve(
    listener: TcpListener,
    guarded: Guarded,
    service: Service,
    grace: Duration,
    shutdown_signal: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let shutdown = async move {
        shutdown_signal.await;
        tracing::info!("shutting down");
        service.shut_down(grace).await;
    };
    serve_until(listener, guarded, shutdown).await
}

/// Serves requests until `shutdown` completes. `shutdown` must wait for the signal to shut down, and then stop the work
/// that requests have started.
///
/// Fails if `listener` is reachable from other machines and the guard has neither API keys nor authenticators.
///
/// ```
/// use axum::{Router, routing::get};
/// use graph_server::{
///     http::{Guard, Metrics},
///     serve_until,
/// };
/// use tokio::{net::TcpListener, sync::oneshot};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let open = Router::new().route("/health", get(async || "ok"));
/// let guarded = Guard::new().wrap(open, Router::new(), Metrics::default());
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// let (stop, stopped) = oneshot::channel::<()>();
/// let server = tokio::spawn(serve_until(listener, guarded, async {
///     let _ = stopped.await;
/// }));
/// // Send requests here.
/// drop(stop);
/// server.await??;
/// # Ok(()) }
/// ```
pub async fn serve_until(
    listener: TcpListener,
    guarded: Guarded,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let Guarded { router, guard } = guarded;
    if !guard.may_listen_on(listener.local_addr()?) {
        let message = "other machines can reach this address, so the server requires credentials; add an API key \
                       or an authenticator to the `Guard`, or listen on 127.0.0.1";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    let closing = watch::Sender::new(false);
    // Half of the descriptors are reserved for runs, so that a large number of clients cannot make a run fail.
    let max_connections = getrlimit(Resource::Nofile)
        .current
        .map_or(MAX_CONNECTIONS, |it| MAX_CONNECTIONS.min(it / 2));
    let max_connections = usize::try_from(max_connections).unwrap_or(1).max(1);
    let max_per_client = guard.max_connections().unwrap_or(max_connections.div_ceil(2));
    let admission = Admission::new(max_connections, max_per_client);
    tokio::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            accepted = listener.accept() => accepted,
        };
        // Without `set_nodelay`, Nagle's algorithm would delay small events.
        match accepted
            .and_then(|(stream, client)| Ok((stream.set_nodelay(true).map(|()| stream)?, client)))
        {
            Ok((stream, client)) => {
                let connection = admission.admit(client.ip().into(), closing.subscribe());
                tokio::spawn(serve_connection(stream, client, connection, router.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection; retrying");
                time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
    drop(listener);
    closing.send_replace(true);
    // Every connection has a receiver, so the channel is closed when all connections are closed.
    if time::timeout(CLOSE_GRACE, closing.closed()).await.is_err() {
        tracing::info!("closing connections that did not finish in time");
    }
    Ok(())
}
