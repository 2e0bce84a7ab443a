//! Accepts connections and shuts down gracefully.

mod write_timeout;

use std::{convert::Infallible, future::Future, io, net::SocketAddr, sync::Arc, time::Duration};

use axum::{Router, body::Body, extract::ConnectInfo};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time,
};
use tower::ServiceExt;

use self::write_timeout::WriteTimeout;
use crate::{http::Guarded, service::Service};

/// Maximum time for connections to close after the service has shut down.
const CLOSE_GRACE: Duration = Duration::from_secs(5);

/// Maximum time for receiving the header of a request.
const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(15);

/// Time after which a connection is closed if the client does not accept any bytes of a pending response. Without
/// this timeout, such a client would occupy a connection slot indefinitely. Event streams send keep-alive messages,
/// so streams that are not read time out too.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

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
    let max_connections = u32::try_from(max_connections).unwrap_or(1).max(1);
    let free = Arc::new(Semaphore::new(max_connections as usize));
    tokio::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            accepted = accept(&listener, &free) => accepted,
        };
        match accepted {
            Ok((stream, client, permit)) => {
                serve_connection(stream, client, permit, &router, &closing)
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection; retrying");
                time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
    drop(listener);
    closing.send_replace(true);
    // Every connection has a permit, so all permits are free when all connections are closed.
    if time::timeout(CLOSE_GRACE, free.acquire_many(max_connections)).await.is_err() {
        tracing::info!("closing connections that did not finish in time");
    }
    Ok(())
}

/// Accepts a connection. Waits while the maximum number of connections is open.
async fn accept(
    listener: &TcpListener,
    free: &Arc<Semaphore>,
) -> io::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let permit = free.clone().acquire_owned().await.map_err(io::Error::other)?;
    let (stream, client) = listener.accept().await?;
    // Without this, Nagle's algorithm would delay small events.
    stream.set_nodelay(true)?;
    Ok((stream, client, permit))
}

/// Counts a connection towards the maximum number of connections. A request whose connection outlives it, such as a
/// WebSocket, keeps the permit.
#[derive(Clone)]
pub(crate) struct ConnectionPermit(
    #[expect(dead_code, reason = "the permit is released when it is dropped")]
    Arc<OwnedSemaphorePermit>,
);

/// Serves the requests on a connection in the background.
fn serve_connection(
    stream: TcpStream,
    client: SocketAddr,
    permit: OwnedSemaphorePermit,
    router: &Router,
    closing: &watch::Sender<bool>,
) {
    let (router, permit) = (router.clone(), ConnectionPermit(Arc::new(permit)));
    let held = permit.clone();
    let answer = service_fn(move |request: hyper::Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(client));
        request.extensions_mut().insert(held.clone());
        let router = router.clone();
        async move {
            Ok::<_, Infallible>(router.oneshot(request).await.unwrap_or_else(|it| match it {}))
        }
    });
    let mut closing = closing.subscribe();
    tokio::spawn(async move {
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_READ_TIMEOUT)
            .serve_connection(TokioIo::new(WriteTimeout::new(stream, WRITE_TIMEOUT)), answer)
            // WebSockets upgrade their connection.
            .with_upgrades();
        tokio::pin!(connection);
        // Errors are ignored, because clients may disconnect at any time.
        tokio::select! {
            _ = connection.as_mut() => {}
            () = async { drop(closing.wait_for(|it| *it).await) } => {
                connection.as_mut().graceful_shutdown();
                let _ = connection.await;
            }
        }
        drop(permit);
    });
}
