//! A Restate server for tests, of one node or several. It ends with the test.

use std::{
    env, fs,
    io::{self, BufRead, BufReader, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::{DEADLINE, peers, ports::free_ports, skip};

/// Directory in which `cargo xtask test` installs the server, below the directory of third-party programs.
const INSTALLED: &str = "restate-1.7.12/node_modules/@restatedev";

/// Private key with which the server signs its calls. It consists of 32 bytes with the value 7.
const PRIVATE_KEY: &str = "\
-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIAcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcH
-----END PRIVATE KEY-----
";

/// Public key with which a worker verifies that calls come from the server.
pub const PUBLIC_KEY: &str = "publickeyv1_GmaDrppBC7P5ARKV8g3djiwP89vz1jLK23V2GBjuAEGB";

/// Maximum time of one request to the server.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A running server. Dropping it kills all nodes and deletes their data.
#[derive(Debug)]
pub struct Server {
    nodes: Vec<Node>,
}

impl Server {
    /// Starts a server and waits until its last node is healthy. A server of several nodes has two copies of all data.
    /// Returns `None` if the server is not installed; the test is then skipped.
    ///
    /// # Panics
    ///
    /// Panics if the server does not start, or if it is not installed and the environment variable
    /// `GRAPH_REQUIRE_RESTATE` is set.
    #[must_use]
    pub fn start(n_nodes: usize) -> Option<Self> {
        let program = program()?;
        let ports = free_ports(3 * n_nodes);
        let ports = ports.chunks(3).map(|it| Ports { ingress: it[0], admin: it[1], node: it[2] });
        let ports: Vec<Ports> = ports.collect();
        let nodes = (0..n_nodes).map(|it| Node::start(&program, &ports, it)).collect();
        let server = Self { nodes };
        server.last().wait_until_healthy();
        Some(server)
    }

    /// Returns the URL of the last node's ingress.
    #[must_use]
    pub fn ingress(&self) -> String {
        format!("http://{}", self.last().ingress)
    }

    /// Returns the URL of the last node's admin API.
    #[must_use]
    pub fn admin(&self) -> String {
        format!("http://{}", self.last().admin)
    }

    /// Registers the address of the workers. Waits until a worker answers there.
    ///
    /// # Panics
    ///
    /// Panics if no worker answers in time.
    pub fn register(&self, workers: SocketAddr) {
        let body = format!(r#"{{"uri": "http://{workers}", "force": true}}"#);
        let deadline = Instant::now() + DEADLINE;
        loop {
            let status = request(self.last().admin, "POST", "/deployments", &body);
            if status.as_ref().is_ok_and(|it| (200..300).contains(it)) {
                return;
            }
            assert!(Instant::now() < deadline, "cannot register the workers: {status:?}");
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Returns the number of nodes.
    #[must_use]
    pub fn n_nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Kills a node, starts it again with its data and waits until it is healthy.
    ///
    /// # Panics
    ///
    /// Panics if the node does not start.
    pub fn crash_and_restart(&self, node: usize) {
        let node = &self.nodes[node];
        {
            let mut guard = node.guard.lock().unwrap_or_else(PoisonError::into_inner);
            end(&mut guard);
            *guard = spawn(&node.program, node.dir.path());
        }
        node.wait_until_healthy();
    }

    /// Kills the first node permanently.
    pub fn kill_first_node(&self) {
        end(&mut self.nodes[0].guard.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn last(&self) -> &Node {
        self.nodes.last().expect("a server has at least one node")
    }
}

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
    skip("GRAPH_REQUIRE_RESTATE", why);
    None
}

/// A node in its own directory.
#[derive(Debug)]
struct Node {
    /// A shell that ends the node when its standard input is closed, even if this process is killed.
    guard: Mutex<Child>,
    program: PathBuf,
    dir: TempDir,
    ingress: SocketAddr,
    admin: SocketAddr,
}

/// Ports of a node.
struct Ports {
    ingress: u16,
    admin: u16,
    node: u16,
}

impl Node {
    fn start(program: &Path, ports: &[Ports], index: usize) -> Self {
        let dir = tempfile::Builder::new().prefix("graph-restate-").tempdir().expect("a directory");
        for (name, text) in
            [("restate.toml", config(ports, index)), ("identity.pem", PRIVATE_KEY.to_owned())]
        {
            fs::write(dir.path().join(name), text).expect("the directory is writable");
        }
        Self {
            guard: Mutex::new(spawn(program, dir.path())),
            program: program.to_owned(),
            dir,
            ingress: (Ipv4Addr::LOCALHOST, ports[index].ingress).into(),
            admin: (Ipv4Addr::LOCALHOST, ports[index].admin).into(),
        }
    }

    /// Waits until the admin API is healthy and the ingress answers.
    fn wait_until_healthy(&self) {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let is_healthy = request(self.admin, "GET", "/health", "").is_ok_and(|it| it == 200);
            if is_healthy && request(self.ingress, "GET", "/restate/health", "").is_ok() {
                return;
            }
            let log = || fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
            assert!(Instant::now() < deadline, "the server did not start: {}", log());
            thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        end(self.guard.get_mut().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Returns the configuration of a node. The first node creates the cluster.
fn config(ports: &[Ports], index: usize) -> String {
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

/// Starts the node whose configuration is in a directory. The returned shell kills the node when its standard input is
/// closed.
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

/// Kills the node that a shell guards.
fn end(guard: &mut Child) {
    drop(guard.stdin.take());
    // Waiting cannot fail, because the shell is a child of this process.
    let _ = guard.wait();
}

/// Sends a request over HTTP and returns the status of the answer.
fn request(address: SocketAddr, method: &str, path: &str, body: &str) -> io::Result<u16> {
    let mut connection = TcpStream::connect(address)?;
    connection.set_read_timeout(Some(REQUEST_TIMEOUT))?;
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    connection.write_all(request.as_bytes())?;
    let mut line = String::new();
    BufReader::new(connection).read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|it| it.parse().ok());
    status.ok_or_else(|| io::Error::other(format!("unexpected answer: {line:?}")))
}
