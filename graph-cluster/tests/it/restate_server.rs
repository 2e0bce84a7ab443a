//! A Restate server for the tests, with a load balancer in front of the workers.
#![cfg(feature = "restate")]

#[path = "haproxy.rs"]
pub(crate) mod haproxy;

use std::{
    env, fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use fastrand::Rng;
use tempfile::TempDir;
use test_support::DEADLINE;
use test_support::peers;
use test_support::ports::free_ports;
use tokio::{net::TcpStream, sync::watch};

use self::haproxy::HaProxy;
use crate::proxy::{Link, forward};

/// Directory in which `cargo xtask test` installs the server, below the directory of third-party programs.
const INSTALLED: &str = "restate-1.7.12/node_modules/@restatedev";

/// Private key with which the servers of the tests sign their calls. It consists of the byte 7, 32 times.
const IDENTITY: &str = "\
-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIAcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcH
-----END PRIVATE KEY-----
";

/// Returns the path of the server's program. If it is not installed, prints that the test is skipped.
fn program() -> Option<PathBuf> {
    if let Some(path) = env::var_os("GRAPH_RESTATE_SERVER") {
        return Some(path.into());
    }
    let base = peers::dir().join(INSTALLED);
    let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    let program = base.join(format!("restate-server-linux-{arch}/bin/restate-server"));
    if program.is_file() {
        return Some(program);
    }
    let why =
        "the Restate server is not installed; run `cargo xtask test` or set GRAPH_RESTATE_SERVER";
    test_support::skip("GRAPH_REQUIRE_RESTATE", why);
    None
}

/// A Restate server, of one node or several.
pub(crate) struct RestateServer {
    /// Address of the last node's ingress.
    pub(crate) ingress: String,
    /// Address of the last node's administration.
    pub(crate) admin: String,
    pub(crate) workers: Balancer,
    program: PathBuf,
    nodes: Vec<Node>,
}

/// A node in its own directory.
struct Node {
    /// A shell that ends the node when its standard input is closed, even if this process is killed.
    guard: Mutex<Child>,
    dir: TempDir,
    ingress: String,
    admin: String,
}

/// Ports of a node.
struct Ports {
    ingress: u16,
    admin: u16,
    node: u16,
}

impl RestateServer {
    /// Starts a server of one node.
    pub(crate) async fn start() -> Option<Self> {
        let program = program()?;
        Some(Self::start_nodes(program, 1, Balancer::Tcp(Workers::start().await)).await)
    }

    /// Starts a server of three nodes, with two copies of all data and HAProxy in front of the workers.
    pub(crate) async fn start_cluster() -> Option<Self> {
        let (program, proxy) = (program()?, HaProxy::start()?);
        Some(Self::start_nodes(program, 3, Balancer::HaProxy(proxy)).await)
    }

    async fn start_nodes(program: PathBuf, n_nodes: usize, workers: Balancer) -> Self {
        // Fails if another test has installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let ports = free_ports(3 * n_nodes);
        let ports = ports.chunks(3).map(|it| Ports { ingress: it[0], admin: it[1], node: it[2] });
        let ports: Vec<Ports> = ports.collect();
        let start = |index: usize| {
            let dir = tempfile::Builder::new().prefix("graph-restate-").tempdir();
            let dir = dir.expect("a directory");
            let config = node_config(&ports, index);
            fs::write(dir.path().join("restate.toml"), config).expect("the directory is writable");
            fs::write(dir.path().join("identity.pem"), IDENTITY)
                .expect("the directory is writable");
            Node {
                guard: Mutex::new(spawn(&program, dir.path())),
                dir,
                ingress: format!("http://127.0.0.1:{}", ports[index].ingress),
                admin: format!("http://127.0.0.1:{}", ports[index].admin),
            }
        };
        let nodes: Vec<Node> = (0..n_nodes).map(start).collect();
        let last = &nodes[n_nodes - 1];
        let (ingress, admin) = (last.ingress.clone(), last.admin.clone());
        let server = Self { ingress, admin, workers, program, nodes };
        server.wait_until_healthy(n_nodes - 1).await;
        server
    }

    /// Kills a random node and starts it again with its data.
    pub(crate) async fn crash_and_restart(&self, rng: &mut Rng) {
        let index = rng.usize(..self.nodes.len());
        let node = &self.nodes[index];
        {
            let mut guard = node.guard.lock().unwrap_or_else(PoisonError::into_inner);
            end(&mut guard);
            *guard = spawn(&self.program, node.dir.path());
        }
        self.wait_until_healthy(index).await;
    }

    /// Kills the first node for good.
    pub(crate) fn kill_first_node(&self) {
        end(&mut self.nodes[0].guard.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits until the admin API of a node is healthy and its ingress answers.
    async fn wait_until_healthy(&self, node: usize) {
        let Node { ingress, admin, .. } = &self.nodes[node];
        let deadline = Instant::now() + DEADLINE;
        loop {
            let health = reqwest::get(format!("{admin}/health")).await;
            let ingress = reqwest::get(format!("{ingress}/restate/health")).await;
            if health.is_ok_and(|it| it.status().is_success()) && ingress.is_ok() {
                return;
            }
            assert!(Instant::now() < deadline, "the server did not start: {}", self.log());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn log(&self) -> String {
        let log = |it: &Node| fs::read_to_string(it.dir.path().join("log")).unwrap_or_default();
        self.nodes.iter().map(log).collect()
    }

    /// Registers the workers with the server. They must be listening.
    pub(crate) async fn register(&self) {
        let body = format!(r#"{{"uri": "http://{}", "force": true}}"#, self.workers.address());
        let deadline = Instant::now() + DEADLINE;
        loop {
            let request = reqwest::Client::new()
                .post(format!("{}/deployments", self.admin))
                .header("content-type", "application/json")
                .body(body.clone());
            match request.send().await {
                Ok(answer) if answer.status().is_success() => return,
                answer => {
                    assert!(Instant::now() < deadline, "cannot register the workers: {answer:?}");
                }
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        end(self.guard.get_mut().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Returns the configuration of a node. The first node creates the cluster.
fn node_config(ports: &[Ports], index: usize) -> String {
    let Ports { ingress, admin, node } = &ports[index];
    let address = |it: &Ports| format!("\"http://127.0.0.1:{}\"", it.node);
    let addresses: Vec<String> = ports.iter().map(address).collect();
    let (addresses, own, replication) =
        (addresses.join(", "), address(&ports[index]), ports.len().min(2));
    format!(
        "disable-telemetry = true\nbind-ip = \"127.0.0.1\"\nrocksdb-total-memory-size = \"256 MiB\"\n\
         default-num-partitions = 2\ndefault-replication = {replication}\ncluster-name = \"test\"\n\
         node-name = \"node-{index}\"\nauto-provision = {}\nadvertised-address = {own}\n\
         bind-port = {node}\nlog-filter = \"warn\"\n\
         [ingress]\nbind-port = {ingress}\n[admin]\nbind-port = {admin}\n\
         [metadata-client]\naddresses = [{addresses}]\n\
         [worker.invoker]\nrequest-identity-private-key-pem-file = \"identity.pem\"\n",
        index == 0
    )
}

/// Starts the server of a directory, with the shell that ends it.
fn spawn(program: &Path, dir: &Path) -> Child {
    let log = fs::File::options().append(true).create(true).open(dir.join("log"));
    let log = log.expect("the directory is writable");
    Command::new("sh")
        .arg("-c")
        .arg("\"$0\" --config-file \"$1\" --base-dir \"$2\" </dev/null & read _; kill -9 $!; wait")
        .arg(program)
        .arg(dir.join("restate.toml"))
        .arg(dir.join("data"))
        .current_dir(dir)
        .stdin(Stdio::piped())
        .stdout(log.try_clone().expect("a file descriptor is free"))
        .stderr(log)
        .spawn()
        .expect("the system has a shell")
}

/// Kills the server of a shell.
fn end(guard: &mut Child) {
    drop(guard.stdin.take());
    // The shell is a child of this process.
    let _ = guard.wait();
}

/// The address that is registered with the server.
pub(crate) enum Balancer {
    Tcp(Workers),
    HaProxy(HaProxy),
}

impl Balancer {
    fn address(&self) -> SocketAddr {
        match self {
            Self::Tcp(workers) => workers.address,
            Self::HaProxy(proxy) => proxy.address(),
        }
    }

    pub(crate) fn add(&self, worker: SocketAddr) {
        match self {
            Self::Tcp(workers) => workers.add(worker),
            Self::HaProxy(proxy) => proxy.add(worker),
        }
    }

    /// Changes the network between the server and the workers.
    pub(crate) fn set_link(&self, link: Link) {
        match self {
            Self::Tcp(workers) => workers.link.send_replace(link),
            Self::HaProxy(_) => panic!("HAProxy forwards everything"),
        };
    }
}

/// A load balancer for connections: each goes to the next worker that accepts it.
#[derive(Clone)]
pub(crate) struct Workers {
    address: SocketAddr,
    addresses: Arc<Mutex<Vec<SocketAddr>>>,
    link: watch::Sender<Link>,
}

impl Workers {
    async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("the listener has an address");
        let link = watch::Sender::new(Link::Up);
        let workers = Self { address, addresses: Arc::default(), link };
        let forward = workers.clone();
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(forward.clone().forward(connection));
            }
        });
        workers
    }

    fn add(&self, worker: SocketAddr) {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
    }

    async fn forward(self, connection: TcpStream) {
        let addresses = {
            let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
            if !addresses.is_empty() {
                addresses.rotate_left(1);
            }
            addresses.clone()
        };
        for address in addresses {
            if let Ok(worker) = TcpStream::connect(address).await {
                return forward(connection, worker, self.link.subscribe()).await;
            }
        }
    }
}
