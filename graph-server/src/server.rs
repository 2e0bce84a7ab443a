//! Listening, and ending well.

mod impatient;

use std::{convert::Infallible, future::Future, io, net::SocketAddr, sync::Arc, time::Duration};

use axum::{Router, body::Body, extract::ConnectInfo};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time,
};
use tower::ServiceExt;

use self::impatient::Impatient;
use crate::{http::Guarded, service::Service};

/// Connections that are still open after the runs are put aside get so long.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// A connection on which no whole head of a request comes for so long is closed.
const HEAD: Duration = Duration::from_secs(15);

/// A connection on which an answer waits for so long, and the client takes nothing of it, is closed. It would keep its
/// place for as long as the client likes. Streams send signs of life, so that those that nobody reads end too.
const UNREAD: Duration = Duration::from_secs(60);

/// Where no connection can be taken, it is tried again after so long.
const BREATH: Duration = Duration::from_millis(200);

/// Connections at once, at most; fewer where this process may have few open files.
const CONNECTIONS: u64 = 4096;

/// Lets this process have as many open files and connections as it may: the usual bound is meant for programs that
/// have few. Says how many that is.
pub fn lift_descriptor_limit() -> io::Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
    Ok(limit.maximum.unwrap_or(u64::MAX))
}

/// Serves until it is told to end; then takes no new runs, gives the live ones so much time, and puts the others aside.
///
/// An address that others than this machine can reach is refused where the guard has no key.
pub async fn serve(
    listener: TcpListener,
    guarded: Guarded,
    service: Service,
    grace: Duration,
    end: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let Guarded { router, guard } = guarded;
    if !guard.suits(listener.local_addr()?) {
        let why = "others can reach this address, so the guard around its routes needs a key";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    let connections = GracefulShutdown::new();
    // Half of the files are for the runs: a crowd of clients must not make one fail.
    let most =
        getrlimit(Resource::Nofile).current.map_or(CONNECTIONS, |it| CONNECTIONS.min(it / 2));
    let free = Arc::new(Semaphore::new(usize::try_from(most).unwrap_or(1).max(1)));
    let ending = async {
        end.await;
        tracing::info!("ends");
        service.shut_down(grace).await;
    };
    tokio::pin!(ending);
    loop {
        let accepted = tokio::select! {
            () = &mut ending => break,
            accepted = accept(&listener, &free) => accepted,
        };
        match accepted {
            Ok((stream, client, place)) => talk(stream, client, place, &router, &connections),
            Err(error) => {
                tracing::warn!(%error, "a connection could not be taken");
                time::sleep(BREATH).await;
            }
        }
    }
    drop(listener);
    if time::timeout(LAST_WORDS, connections.shutdown()).await.is_err() {
        tracing::info!("leaves connections that do not end");
    }
    Ok(())
}

/// Takes a connection, once there is room for one.
async fn accept(
    listener: &TcpListener,
    free: &Arc<Semaphore>,
) -> io::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let place = free.clone().acquire_owned().await.map_err(io::Error::other)?;
    let (stream, client) = listener.accept().await?;
    // Or an event waits for the receipt of the one before.
    stream.set_nodelay(true)?;
    Ok((stream, client, place))
}

/// Answers a connection's requests, in the background.
fn talk(
    stream: TcpStream,
    client: SocketAddr,
    place: OwnedSemaphorePermit,
    router: &Router,
    connections: &GracefulShutdown,
) {
    let router = router.clone();
    let answer = service_fn(move |request: hyper::Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(client));
        let router = router.clone();
        async move {
            Ok::<_, Infallible>(router.oneshot(request).await.unwrap_or_else(|it| match it {}))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .serve_connection(TokioIo::new(Impatient::new(stream, UNREAD)), answer);
    let connection = connections.watch(connection);
    tokio::spawn(async move {
        // Clients go as they like.
        let _ = connection.await;
        drop(place);
    });
}
