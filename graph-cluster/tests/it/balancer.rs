//! A load balancer in front of the workers of a Restate server: each HTTP/2 request goes to the next worker that
//! accepts a connection. The network between the server and the load balancer can fail.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use hyper::{Request, Response, body::Incoming, client, server, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
};

use crate::proxy::{Link, start_proxy};

#[derive(Clone)]
pub(crate) struct Workers {
    pub(super) address: SocketAddr,
    addresses: Arc<Mutex<Vec<SocketAddr>>>,
    pub(super) link: watch::Sender<Link>,
}

impl Workers {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let balancer = listener.local_addr().expect("the listener has an address");
        let (address, link) = start_proxy(balancer).await;
        let workers = Self { address, addresses: Arc::default(), link };
        tokio::spawn(workers.clone().serve(listener));
        workers
    }

    pub(super) fn add(&self, worker: SocketAddr) {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
    }

    async fn serve(self, listener: TcpListener) {
        while let Ok((connection, _)) = listener.accept().await {
            let workers = self.clone();
            let service = service_fn(move |request| {
                let workers = workers.clone();
                async move { workers.call(request).await }
            });
            let serving = server::conn::http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(connection), service);
            // An error means that the connection broke.
            tokio::spawn(async move { drop(serving.await) });
        }
    }

    /// Passes a request to a worker, on a new connection.
    async fn call(&self, request: Request<Incoming>) -> io::Result<Response<Incoming>> {
        let worker = TokioIo::new(self.connect().await?);
        let (mut worker, connection) = client::conn::http2::handshake(TokioExecutor::new(), worker)
            .await
            .map_err(io::Error::other)?;
        tokio::spawn(async move { drop(connection.await) });
        worker.send_request(request).await.map_err(io::Error::other)
    }

    /// Connects to the next worker that accepts the connection.
    async fn connect(&self) -> io::Result<TcpStream> {
        let addresses = {
            let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
            if !addresses.is_empty() {
                addresses.rotate_left(1);
            }
            addresses.clone()
        };
        for address in addresses {
            if let Ok(worker) = TcpStream::connect(address).await {
                return Ok(worker);
            }
        }
        Err(io::Error::other("no worker is listening"))
    }
}
