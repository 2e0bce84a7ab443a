//! Serves the requests on one connection.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::ConnectInfo,
    response::{IntoResponse, Response},
};
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tower::ServiceExt;

use super::{admission::Connection, permitted_body::PermittedBody, write_timeout::WriteTimeout};
use crate::http::{Problem, is_probe};

/// Maximum time for receiving the header of a request.
const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(15);

/// Maximum time for receiving the header of a request on a connection in a reserved slot.
const RESERVED_READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum size of the header of a request. A client can occupy this much memory with each of its connections.
const MAX_HEADER_BYTES: usize = 64 << 10;

/// Time after which a connection is closed if the client accepts too little of a pending response. Without this
/// timeout, such a client would occupy a connection slot indefinitely. Event streams send keep-alive messages, so
/// streams that are not read time out too.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// Serves the requests on a connection until the client closes it, another connection replaces it, or the server shuts
/// down.
pub(super) async fn serve_connection(
    stream: TcpStream,
    client: SocketAddr,
    connection: Arc<Connection>,
    router: Router,
) {
    let is_reserved = connection.is_reserved;
    let serving = connection.clone();
    let answer = service_fn(move |mut request: Request<Incoming>| {
        let permit = serving.begin_request();
        request.extensions_mut().insert(ConnectInfo(client));
        request.extensions_mut().insert(permit.clone());
        let router = router.clone();
        async move {
            let response = match is_reserved && !is_probe(request.uri().path()) {
                true => too_many_connections(),
                false => {
                    router.oneshot(request.map(Body::new)).await.unwrap_or_else(|it| match it {})
                }
            };
            Ok::<_, Infallible>(response.map(|body| PermittedBody { body, _permit: permit }))
        }
    });
    let read_timeout = if is_reserved { RESERVED_READ_TIMEOUT } else { HEADER_READ_TIMEOUT };
    let http = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(read_timeout)
        .max_buf_size(MAX_HEADER_BYTES)
        .keep_alive(!is_reserved)
        .serve_connection(TokioIo::new(WriteTimeout::new(stream, WRITE_TIMEOUT)), answer)
        // WebSockets upgrade their connection.
        .with_upgrades();
    tokio::pin!(http);
    let mut closing = connection.closing.clone();
    // Errors are ignored, because clients may disconnect at any time.
    tokio::select! {
        _ = http.as_mut() => return,
        () = connection.replaced.notified() => {
            // A connection without a request is closed at once. A request may have arrived in the meantime.
            if !connection.has_requests() {
                return;
            }
        }
        () = async { drop(closing.wait_for(|it| *it).await) } => {}
    }
    http.as_mut().graceful_shutdown();
    let _ = http.await;
}

/// Creates the response to a request on a connection in a reserved slot.
fn too_many_connections() -> Response {
    let message = "too many open connections; close some of them or retry after the time in the `Retry-After` header";
    Problem::unavailable(message, 5).into_response()
}
