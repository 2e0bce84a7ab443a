//! The example server `reference` in its own process, and an HTTP client for it.

use std::{fs, path::Path, process::Command};

use graph_server::raise_descriptor_limit;
use reqwest::{Client, Response};
use serde_json::{Value, json};
use test_support::process::{Process, example};

/// A process of the example server, which is killed when the value is dropped.
pub(crate) struct Reference {
    process: Process,
    address: String,
    client: Client,
}

impl Reference {
    pub(crate) fn command(data: &Path) -> Command {
        let mut command = Command::new(example("graph-server", "reference").unwrap());
        command.args(["--port", "0", "--data"]).arg(data);
        command
    }

    pub(crate) fn start(data: &Path) -> Self {
        Self::start_with(data, &[])
    }

    /// Starts the server with additional arguments.
    pub(crate) fn start_with(data: &Path, arguments: &[&str]) -> Self {
        // The client requires a TLS provider, although these tests use plain HTTP.
        let _ = rustls::crypto::ring::default_provider().install_default();
        // The readers and the server have the same limit, because child processes inherit it.
        raise_descriptor_limit().unwrap();
        let (process, address) = Process::start_server(Self::command(data).args(arguments));
        // The server closes idle connections, possibly while the client sends a request on one of them.
        let client = Client::builder().no_proxy().pool_max_idle_per_host(0).build().unwrap();
        Self { process, address, client }
    }

    /// Sends a request and returns the response, whose body is still arriving.
    pub(crate) async fn send(&self, path: &str, body: &Value) -> Response {
        let request = self.client.post(format!("{}{path}", self.address));
        let request = request.header("content-type", "application/json").body(body.to_string());
        let response = request.send().await.unwrap();
        assert!(response.status().is_success(), "{path}: {}", response.status());
        response
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Value {
        serde_json::from_slice(&self.send(path, body).await.bytes().await.unwrap()).unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let response = self.client.get(format!("{}{path}", self.address)).send().await.unwrap();
        serde_json::from_slice(&response.bytes().await.unwrap()).unwrap()
    }

    /// Streams a run from its first event.
    pub(crate) async fn join(&self, run: &str) -> Response {
        self.join_after(run, "-1").await
    }

    /// Streams a run or a thread after the event with this id.
    pub(crate) async fn join_after(&self, path: &str, event: &str) -> Response {
        let request = self.client.get(format!("{}{path}/stream", self.address));
        let response = request.header("last-event-id", event).send().await.unwrap();
        assert!(response.status().is_success(), "{path}: {}", response.status());
        response
    }

    /// Creates a thread and returns its path.
    pub(crate) async fn new_thread(&self) -> String {
        let thread = self.post("/threads", &json!({})).await;
        format!("/threads/{}", thread["thread_id"].as_str().unwrap())
    }

    /// Returns the current and the highest memory of the server in MiB. Both are 0 on systems other than Linux.
    pub(crate) fn memory(&self) -> (u64, u64) {
        let path = format!("/proc/{}/status", self.process.0.id());
        let status = fs::read_to_string(path).unwrap_or_default();
        let kib = |name: &str| {
            let line = status.lines().find_map(|it| it.strip_prefix(name));
            let number = line.and_then(|it| it.split_whitespace().next()?.parse::<u64>().ok());
            number.unwrap_or(0)
        };
        (kib("VmRSS:") / 1024, kib("VmHWM:") / 1024)
    }
}
