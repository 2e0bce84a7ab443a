//! Connections that are delayed, frozen or cut, and a TCP proxy between a worker and its database that uses them.

use std::{net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy},
    net::{TcpListener, TcpStream},
    sync::watch,
    time::sleep,
};

/// Effect of the network on connections and data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Link {
    /// Forwards everything.
    Up,
    /// Forwards everything after a delay.
    Slow(Duration),
    /// Keeps connections open, and forwards nothing.
    Frozen,
    /// Closes all connections, and accepts no new ones.
    Cut,
}

/// A proxy in front of a database.
pub(crate) struct Proxy {
    /// URL of the database through the proxy.
    pub(crate) url: String,
    link: watch::Sender<Link>,
}

impl Proxy {
    /// Starts a proxy for a URL of the form `postgresql://user@host:port/database`.
    pub(crate) async fn start(url: &str) -> Self {
        let (prefix, rest) = url.split_once('@').expect("the URL has a user");
        let (target, database) = rest.split_once('/').expect("the URL has a database");
        let target: SocketAddr = target.parse().expect("the URL has an address");
        let (address, link) = start_proxy(target).await;
        Self { url: format!("{prefix}@{address}/{database}"), link }
    }

    pub(crate) fn set(&self, link: Link) {
        self.link.send_replace(link);
    }
}

/// Starts a proxy in front of an address. Returns the proxy's address, and the network between the proxy and its
/// clients.
pub(crate) async fn start_proxy(target: SocketAddr) -> (SocketAddr, watch::Sender<Link>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("the listener has an address");
    let (link, current) = watch::channel(Link::Up);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let link = current.clone();
            tokio::spawn(async move {
                if let Ok(server) = TcpStream::connect(target).await {
                    forward(client, server, link).await;
                }
            });
        }
    });
    (address, link)
}

/// Forwards data in both directions until a connection is closed or cut.
async fn forward(client: TcpStream, server: TcpStream, link: watch::Receiver<Link>) {
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let mut cut = link.clone();
    tokio::select! {
        () = pass(from_client, to_server, link.clone()) => {}
        () = pass(from_server, to_client, link) => {}
        // An error means that the sender was dropped.
        _ = cut.wait_for(|it| *it == Link::Cut) => {}
    }
}

async fn pass(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    mut link: watch::Receiver<Link>,
) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        let state = match link.wait_for(|it| *it != Link::Frozen).await {
            Ok(state) => *state,
            Err(_) => return,
        };
        if let Link::Slow(delay) = state {
            sleep(delay).await;
        }
        if copy(&mut &buffer[..length], &mut to).await.is_err() {
            return;
        }
    }
}
