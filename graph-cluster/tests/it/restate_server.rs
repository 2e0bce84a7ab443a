//! A Restate server for the tests, and a load balancer in front of the workers.
#![cfg(feature = "restate")]

use std::{
    env, fs,
    io::Write as _,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tempfile::TempDir;
use tokio::net::TcpStream;

/// Directory in which `cargo xtask test` installs the server, below the directory of third-party programs.
const INSTALLED: &str = "restate-1.7.12/node_modules/@restatedev";

/// Returns the path of the server's program. If it is not installed, prints that the test is skipped.
fn program() -> Option<PathBuf> {
    if let Some(path) = env::var_os("GRAPH_RESTATE_SERVER") {
        return Some(path.into());
    }
    let peers = env::var_os("GRAPH_PEERS").map(PathBuf::from).unwrap_or_else(|| {
        // This program is `target/debug/deps/it-…`.
        let program = env::current_exe().expect("the program of this process");
        program.ancestors().nth(3).expect("the target directory").join("peers")
    });
    let base = peers.join(INSTALLED);
    let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    let program = base.join(format!("restate-server-linux-{arch}/bin/restate-server"));
    if program.is_file() {
        return Some(program);
    }
    assert!(
        env::var_os("GRAPH_REQUIRE_RESTATE").is_none(),
        "the Restate server is not installed; run `cargo xtask test`"
    );
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    // Writes directly to stderr, because the test harness captures the output of print macros.
    let _ = writeln!(
        std::io::stderr(),
        "SKIPPED: {test}: the Restate server is not installed; run `cargo xtask test` or set GRAPH_RESTATE_SERVER"
    );
    None
}

/// A Restate server in its own directory.
pub(crate) struct RestateServer {
    pub(crate) ingress: String,
    admin: String,
    pub(crate) workers: Workers,
    program: PathBuf,
    /// A shell that ends the server when its standard input is closed, so also if this process is killed.
    guard: Mutex<Child>,
    dir: TempDir,
}

impl RestateServer {
    pub(crate) async fn start() -> Option<Self> {
        let program = program()?;
        // Fails if another test has installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let dir = tempfile::Builder::new().prefix("graph-restate-").tempdir().expect("a directory");
        let [ingress, admin, node] = free_ports();
        let config = format!(
            "disable-telemetry = true\nbind-ip = \"127.0.0.1\"\nrocksdb-total-memory-size = \"256 MiB\"\n\
             default-num-partitions = 2\nbind-port = {node}\nlog-filter = \"warn\"\n\
             [ingress]\nbind-port = {ingress}\n[admin]\nbind-port = {admin}\n"
        );
        fs::write(dir.path().join("restate.toml"), config).expect("the directory is writable");
        let server = Self {
            ingress: format!("http://127.0.0.1:{ingress}"),
            admin: format!("http://127.0.0.1:{admin}"),
            workers: Workers::start().await,
            guard: Mutex::new(spawn(&program, dir.path())),
            program,
            dir,
        };
        server.wait_until_healthy().await;
        Some(server)
    }

    /// Kills the server and starts it again with its data.
    pub(crate) async fn crash_and_restart(&self) {
        {
            let mut guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
            end(&mut guard);
            *guard = spawn(&self.program, self.dir.path());
        }
        self.wait_until_healthy().await;
    }

    async fn wait_until_healthy(&self) {
        for attempt in 0.. {
            let health = reqwest::get(format!("{}/health", self.admin)).await;
            if health.is_ok_and(|it| it.status().is_success()) {
                return;
            }
            assert!(attempt < 600, "the Restate server did not start: {}", self.log());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// Registers the workers with the server. They must be listening.
    pub(crate) async fn register(&self) {
        let body = format!(r#"{{"uri": "http://{}", "force": true}}"#, self.workers.address);
        for attempt in 0.. {
            let request = reqwest::Client::new()
                .post(format!("{}/deployments", self.admin))
                .header("content-type", "application/json")
                .body(body.clone());
            match request.send().await {
                Ok(answer) if answer.status().is_success() => return,
                answer => assert!(attempt < 300, "cannot register the workers: {answer:?}"),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

impl Drop for RestateServer {
    fn drop(&mut self) {
        end(self.guard.get_mut().unwrap_or_else(PoisonError::into_inner));
    }
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

fn free_ports() -> [u16; 3] {
    let listeners =
        [(); 3].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free"));
    listeners.each_ref().map(|it| it.local_addr().expect("the listener has an address").port())
}

/// A load balancer for connections: each goes to the next worker that accepts it.
#[derive(Clone)]
pub(crate) struct Workers {
    address: SocketAddr,
    addresses: Arc<Mutex<Vec<SocketAddr>>>,
}

impl Workers {
    async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("the listener has an address");
        let workers = Self { address, addresses: Arc::default() };
        let forward = workers.clone();
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(forward.clone().forward(connection));
            }
        });
        workers
    }

    pub(crate) fn add(&self, worker: SocketAddr) {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
    }

    async fn forward(self, mut connection: TcpStream) {
        let addresses = {
            let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
            if !addresses.is_empty() {
                addresses.rotate_left(1);
            }
            addresses.clone()
        };
        for address in addresses {
            if let Ok(mut worker) = TcpStream::connect(address).await {
                let _ = tokio::io::copy_bidirectional(&mut connection, &mut worker).await;
                return;
            }
        }
    }
}
