//! A server in its own process.

use std::{
    env,
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Command, Stdio},
    thread,
};

use consulting_graph::{config::DEFAULT, run::new_run::with_rounds};
use reqwest::{Client, Response, header::CONTENT_TYPE};
use serde_json::{Value, json};
use test_support::process::Process;

/// The server, which is killed when this value is dropped.
pub(crate) struct Server {
    process: Process,
    address: String,
    client: Client,
}

impl Server {
    /// Starts a server whose debates have `rounds` rounds.
    pub(crate) fn start(dir: &Path, rounds: u32, options: &str) -> Self {
        std::fs::write(dir.join("config.toml"), with_rounds(DEFAULT, rounds)).unwrap();
        let options = format!(
            "serve --address 127.0.0.1:0 --config config.toml --data synthetic --provider scripted --sandbox in-process \
             --isolation off --rate 1000000 {options}"
        );
        let mut command = Command::new(env!("CARGO_BIN_EXE_consulting"));
        command.args(options.split_whitespace()).current_dir(dir).stderr(Stdio::piped());
        let variables = env::var("LOAD_ENV").unwrap_or_default();
        command.envs(variables.split_whitespace().map(|it| it.split_once('=').unwrap()));
        let mut process = Process::start(&mut command);
        let mut stderr = BufReader::new(process.0.stderr.take().unwrap());
        let address = loop {
            let mut line = String::new();
            assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "the server did not start");
            if let Some(rest) = line.split("Serving at ").nth(1) {
                break rest.split(". ").next().unwrap().to_owned();
            }
        };
        // Drains stderr, so that the server does not block on a full pipe.
        thread::spawn(move || stderr.read_to_end(&mut Vec::new()));
        let client = llm::http_client(&address.parse().unwrap()).unwrap();
        Self { process, address, client }
    }

    /// Returns a figure of `/proc/PID/status` in MB, such as `VmRSS`.
    pub(crate) fn megabytes(&self, name: &str) -> f64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.process.0.id())).unwrap();
        let line = status.lines().find_map(|it| it.strip_prefix(name)?.strip_prefix(':')).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<f64>().unwrap() * 1024.0 / 1e6
    }

    /// Starts a run and returns its id.
    pub(crate) async fn start_run(&self, seed: usize) -> String {
        let request = self.client.post(format!("{}/api/analyze", self.address));
        let body = json!({ "ticker": "NVDA", "seed": seed }).to_string();
        let response = request.header(CONTENT_TYPE, "application/json").body(body).send().await;
        let response = response.unwrap();
        assert_eq!(response.status(), 202);
        let started: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
        started["analysis_id"].as_str().unwrap().to_owned()
    }

    /// Requests the events of a run after the one with this number.
    pub(crate) async fn stream(&self, id: &str, after: usize) -> Response {
        let request = self.client.get(format!("{}/api/stream/{id}", self.address));
        request.header("last-event-id", after.to_string()).send().await.unwrap()
    }

    pub(crate) async fn check_health(&self) {
        let response = self.client.get(format!("{}/health", self.address)).send().await.unwrap();
        assert_eq!(response.status(), 200);
    }

    /// Returns the statuses of all runs.
    pub(crate) async fn statuses(&self) -> Vec<String> {
        let response = self.client.get(format!("{}/api/runs?limit=200", self.address)).send().await;
        let runs: Value = serde_json::from_str(&response.unwrap().text().await.unwrap()).unwrap();
        let runs = runs["runs"].as_array().unwrap().iter();
        runs.map(|it| it["status"].as_str().unwrap().to_owned()).collect()
    }
}
