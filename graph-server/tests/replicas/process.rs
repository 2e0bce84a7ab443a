//! Replicas in their own processes, and an HTTP client for them.

use std::{fs, path::PathBuf, process::Command};

use graph_tests::{postgres, postgres_tls::TlsServer};
use reqwest::{Client, Method, Response};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use serde_json::{Value, json};
use tempfile::TempDir;
use test_support::process::{Process, example};

/// A database that replicas share, and the file to which their runs append lines.
pub(crate) struct Cluster {
    server: &'static postgres::Server,
    database: String,
    files: TempDir,
}

impl Cluster {
    /// Creates a database. Returns `None` if PostgreSQL is not installed.
    pub(crate) fn start() -> Option<Self> {
        // The client requires a TLS provider, although these tests use plain HTTP.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let server = postgres::shared()?;
        let files = tempfile::tempdir().unwrap();
        Some(Self { server, database: server.fresh_database(), files })
    }

    /// Creates a database that replicas reach with TLS. Returns `None` if PostgreSQL is not installed.
    pub(crate) fn start_with_tls() -> Option<Self> {
        let cluster = Self::start()?;
        // The server ends with the process.
        let tls: &'static TlsServer = Box::leak(Box::new(TlsServer::start()?));
        let database = tls.fresh_database(&tls.verify_full());
        Some(Self { server: &tls.server, database, ..cluster })
    }

    fn effects_file(&self) -> PathBuf {
        self.files.path().join("effects")
    }

    /// Starts a replica that executes this number of runs at a time.
    pub(crate) fn replica(&self, concurrent_runs: usize) -> Replica {
        self.replica_with(concurrent_runs, &[])
    }

    /// Starts a replica with additional arguments.
    pub(crate) fn replica_with(&self, concurrent_runs: usize, arguments: &[&str]) -> Replica {
        let mut command = Command::new(example("graph-server", "replica").unwrap());
        command
            .args(["--port", "0", "--database", &self.database])
            .args(["--concurrent-runs", &concurrent_runs.to_string(), "--effects"])
            .arg(self.effects_file())
            .args(arguments);
        let (process, address) = Process::start_server(&mut command);
        // The server closes idle connections, possibly while the client sends a request on one of them.
        let client = Client::builder().no_proxy().pool_max_idle_per_host(0).build().unwrap();
        Replica { process, address, client }
    }

    /// Returns the lines that runs have appended: the label of the run, the number of the round, and the process.
    pub(crate) fn effects(&self) -> Vec<(String, u32, u32)> {
        let text = fs::read_to_string(self.effects_file()).unwrap_or_default();
        let parse = |line: &str| {
            let mut words = line.split(' ');
            let label = words.next().unwrap().to_owned();
            let mut number = || words.next().unwrap().parse().unwrap();
            (label, number(), number())
        };
        text.lines().map(parse).collect()
    }

    /// Waits until runs have appended this number of lines.
    pub(crate) async fn wait_for_effects(&self, count: usize) {
        while self.effects().len() < count {
            tokio::task::yield_now().await;
        }
    }

    /// Ends the rounds that wait for this call; see [`held_job`].
    pub(crate) fn release(&self) {
        fs::write(self.effects_file().with_extension("continue"), "").unwrap();
    }

    /// Executes a SQL statement.
    pub(crate) fn sql(&self, statement: &str) -> String {
        self.server.sql(&self.database, statement)
    }
}

/// A process that is killed when the value is dropped.
pub(crate) struct Replica {
    process: Process,
    address: String,
    client: Client,
}

impl Replica {
    /// Returns the id of the process.
    pub(crate) fn id(&self) -> u32 {
        self.process.0.id()
    }

    /// Suspends the process, which keeps its connections.
    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
        // Returns when all threads of the process are suspended.
        waitpid(Some(Pid::from_child(&self.process.0)), WaitOptions::UNTRACED).unwrap();
    }

    /// Continues the process.
    pub(crate) fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process.0), signal).unwrap();
    }

    /// Sends a request and returns the status and the body.
    pub(crate) async fn send(&self, method: Method, path: &str, body: &Value) -> (u16, Value) {
        let request = self.client.request(method, format!("{}{path}", self.address));
        let request = request.header("content-type", "application/json").body(body.to_string());
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        let text = response.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::Null))
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.send(Method::GET, path, &json!({})).await.1
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Value {
        let (status, answer) = self.send(Method::POST, path, body).await;
        assert!((200..300).contains(&status), "{path}: {status} {answer}");
        answer
    }

    /// Sends a request with an API key, and returns the body.
    pub(crate) async fn post_as(&self, key: &str, path: &str, body: &Value) -> Value {
        let request = self.client.post(format!("{}{path}", self.address)).bearer_auth(key);
        let request = request.header("content-type", "application/json").body(body.to_string());
        let response = request.send().await.unwrap();
        let status = response.status();
        let text = response.text().await.unwrap();
        assert!(status.is_success(), "{path}: {status} {text}");
        serde_json::from_str(&text).unwrap()
    }

    /// Creates a thread and returns its path.
    pub(crate) async fn new_thread(&self) -> String {
        let thread = self.post("/threads", &json!({})).await;
        format!("/threads/{}", thread["thread_id"].as_str().unwrap())
    }

    /// Starts a run on a thread and returns its path.
    pub(crate) async fn start(&self, thread: &str, body: &Value) -> String {
        let run = self.post(&format!("{thread}/runs"), body).await;
        format!("{thread}/runs/{}", run["run_id"].as_str().unwrap())
    }

    /// Reads the lines of a stream until `found` returns true for those received so far.
    pub(crate) async fn read_lines(
        &self,
        path: &str,
        body: &Value,
        found: impl Fn(&[&str]) -> bool,
    ) {
        let request = self.client.post(format!("{}{path}", self.address));
        let request = request.header("content-type", "application/json").body(body.to_string());
        let mut response = request.send().await.unwrap();
        let mut text = String::new();
        while !found(&text.lines().collect::<Vec<_>>()) {
            let chunk = response.chunk().await.unwrap().expect("the stream has not ended");
            text.push_str(&String::from_utf8_lossy(&chunk));
        }
    }

    /// Streams the events of a run after the event with this id.
    pub(crate) async fn stream(&self, run: &str, after: &str) -> Vec<Event> {
        Event::read_all(self.open_stream(run, after).await).await
    }

    /// Starts to stream the events of a run after the event with this id.
    pub(crate) async fn open_stream(&self, run: &str, after: &str) -> Response {
        let url = format!("{}{run}/stream", self.address);
        self.client.get(url).header("last-event-id", after).send().await.unwrap()
    }
}

/// A server-sent event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) data: String,
}

impl Event {
    /// Reads a stream to its end.
    pub(crate) async fn read_all(stream: Response) -> Vec<Self> {
        let text = stream.text().await.unwrap();
        let events = text.split("\r\n\r\n").filter(|it| it.starts_with("event: "));
        let parse = |text: &str| {
            let field = |name: &str| {
                let line = text.lines().find_map(|it| it.strip_prefix(name));
                line.unwrap_or_default().to_owned()
            };
            Self { id: field("id: "), name: field("event: "), data: field("data: ") }
        };
        events.map(parse).collect()
    }
}

/// Returns the request for a run of the graph `jobs`.
pub(crate) fn job(label: &str, rounds: u32, pause_ms: u64) -> Value {
    json!({
        "assistant_id": "jobs",
        "input": { "label": label, "rounds": rounds, "pause": pause_ms, "hold": 0 },
        "stream_mode": ["values", "custom"],
        "durability": "sync",
    })
}

/// Returns the request for a run whose round `hold` lasts until [`Cluster::release`] is called. The round appends its
/// line when it starts.
pub(crate) fn held_job(label: &str, rounds: u32, hold: u32) -> Value {
    let mut job = job(label, rounds, 0);
    job["input"]["hold"] = json!(hold);
    job
}
