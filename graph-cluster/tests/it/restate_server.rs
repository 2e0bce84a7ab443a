//! A Restate server for the tests, with a load balancer in front of the workers.

#[path = "balancer.rs"]
mod balancer;
#[path = "haproxy.rs"]
pub(crate) mod haproxy;

use std::{net::SocketAddr, sync::Arc};

use fastrand::Rng;
use test_support::restate::Server;
use tokio::task::spawn_blocking;

use self::{balancer::Workers, haproxy::HaProxy};
use crate::proxy::Link;

/// A Restate server, of one node or several, and its workers.
pub(crate) struct RestateServer {
    pub(crate) ingress: String,
    pub(crate) workers: Balancer,
    pub(crate) server: Arc<Server>,
}

impl RestateServer {
    /// Starts a server of one node.
    pub(crate) async fn start() -> Option<Self> {
        let server = Server::start(1)?;
        Some(Self::new(server, Balancer::Local(Workers::start().await)))
    }

    /// Starts a server of three nodes, with two copies of all data and HAProxy in front of the workers.
    pub(crate) fn start_cluster() -> Option<Self> {
        let proxy = HaProxy::start()?;
        Some(Self::new(Server::start(3)?, Balancer::HaProxy(proxy)))
    }

    fn new(server: Server, workers: Balancer) -> Self {
        // Fails if another test of this process has installed the provider.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self { ingress: server.ingress(), workers, server: Arc::new(server) }
    }

    /// Kills a random node and starts it again with its data.
    pub(crate) async fn crash_and_restart(&self, rng: &mut Rng) {
        let (server, node) = (self.server.clone(), rng.usize(..self.server.n_nodes()));
        let restarted = spawn_blocking(move || server.crash_and_restart(node)).await;
        restarted.expect("the node starts again");
    }

    /// Kills the first node permanently.
    pub(crate) fn kill_first_node(&self) {
        self.server.kill_first_node();
    }

    /// Registers the workers with the server. They must be listening.
    pub(crate) async fn register(&self) {
        let (server, workers) = (self.server.clone(), self.workers.address());
        let registered = spawn_blocking(move || server.register(workers)).await;
        registered.expect("the workers are listening");
    }
}

/// The address that is registered with the server.
pub(crate) enum Balancer {
    /// Runs in this process.
    Local(Workers),
    HaProxy(HaProxy),
}

impl Balancer {
    fn address(&self) -> SocketAddr {
        match self {
            Self::Local(workers) => workers.address,
            Self::HaProxy(proxy) => proxy.address(),
        }
    }

    pub(crate) fn add(&self, worker: SocketAddr) {
        match self {
            Self::Local(workers) => workers.add(worker),
            Self::HaProxy(proxy) => proxy.add(worker),
        }
    }

    /// Changes the network between the server and the workers.
    pub(crate) fn set_link(&self, link: Link) {
        match self {
            Self::Local(workers) => workers.link.send_replace(link),
            Self::HaProxy(_) => panic!("HAProxy forwards everything"),
        };
    }
}
