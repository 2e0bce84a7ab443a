//! Listening, and ending well.

use std::{future::Future, io, net::SocketAddr, time::Duration};

use axum::Router;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{net::TcpListener, sync::watch, time};

use crate::service::Service;

/// Connections that are still open after the runs are put aside get so long.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Lets this process have as many open files and connections as it may: the usual bound is meant for programs that
/// have few. Says how many that is.
pub fn lift_descriptor_limit() -> io::Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
    Ok(limit.maximum.unwrap_or(u64::MAX))
}

/// Serves until it is told to end; then takes no new runs, gives the live ones so much time, and puts the others aside.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    service: Service,
    grace: Duration,
    end: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let (told, mut is_told) = watch::channel(false);
    let ending = async move {
        end.await;
        tracing::info!("ends");
        service.shut_down(grace).await;
        told.send_replace(true);
    };
    let app = router.into_make_service_with_connect_info::<SocketAddr>();
    let server = axum::serve(listener, app).with_graceful_shutdown(ending);
    let too_long = async {
        let _ = is_told.wait_for(|it| *it).await;
        time::sleep(LAST_WORDS).await;
    };
    tokio::select! {
        ended = server.into_future() => ended,
        () = too_long => Ok(()),
    }
}
