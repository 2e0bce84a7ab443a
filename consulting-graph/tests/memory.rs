//! Measures the memory of the server before, during and after many concurrent runs.
//!
//! ```sh
//! GRAPH_NIGHTLY=1 cargo test --release -p consulting-graph --test memory -- --nocapture
//! ```
//!
//! `MEMORY_RUNS` replaces the numbers of runs. `MEMORY_ENV` sets environment variables of the server, so that allocators
//! and their settings can be compared without rebuilding the program. The libraries are those of the Debian packages
//! `libmimalloc3` and `libjemalloc2`:
//!
//! ```sh
//! for env in A=1 GLIBC_TUNABLES=glibc.malloc.arena_max=1 GLIBC_TUNABLES=glibc.malloc.arena_max=2 \
//!     GLIBC_TUNABLES=glibc.malloc.mmap_threshold=65536:glibc.malloc.trim_threshold=65536 \
//!     LD_PRELOAD=libmimalloc.so.3 LD_PRELOAD=libjemalloc.so.2; do
//!     MEMORY_ENV=$env MEMORY_RUNS=48,200 GRAPH_NIGHTLY=1 \
//!         cargo test --release -p consulting-graph --test memory -- --nocapture
//! done
//! ```
#![cfg(target_os = "linux")]
#![expect(clippy::print_stdout, reason = "prints what it measured")]
#![expect(
    clippy::unwrap_used,
    reason = "helper functions of tests are not covered by the allow-in-tests setting"
)]

use std::{
    env,
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use consulting_graph::config::DEFAULT;
use graph_tests::crash::is_nightly;
use reqwest::{Client, header::CONTENT_TYPE};
use serde_json::{Value, json};
use test_support::process::Process;

/// Time that all runs may take. It is far longer than they need.
const TIMEOUT: Duration = Duration::from_secs(3600);

/// Time within which the server must have released its memory after the last run.
const RELEASE: Duration = Duration::from_secs(20);

/// The server in its own process, which is killed when this value is dropped.
struct Server {
    process: Process,
    address: String,
    client: Client,
}

impl Server {
    fn start(dir: &Path, runs: usize) -> Self {
        let config = DEFAULT.replace("rounds = 10", "rounds = 2");
        assert_ne!(config, DEFAULT);
        std::fs::write(dir.join("config.toml"), config).unwrap();
        let options = format!(
            "serve --address 127.0.0.1:0 --config config.toml --data synthetic --provider scripted --sandbox in-process \
             --isolation off --rate 1000000 --max-runs {runs}"
        );
        let mut command = Command::new(env!("CARGO_BIN_EXE_consulting"));
        command.args(options.split_whitespace()).current_dir(dir).stderr(Stdio::piped());
        let variables = env::var("MEMORY_ENV").unwrap_or_default();
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
    fn megabytes(&self, name: &str) -> f64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.process.0.id())).unwrap();
        let line = status.lines().find_map(|it| it.strip_prefix(name)?.strip_prefix(':')).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<f64>().unwrap() * 1024.0 / 1e6
    }

    async fn start_run(&self, seed: usize) {
        let request = self.client.post(format!("{}/api/analyze", self.address));
        let body = json!({ "ticker": "NVDA", "seed": seed }).to_string();
        let response = request.header(CONTENT_TYPE, "application/json").body(body).send().await;
        assert_eq!(response.unwrap().status(), 202);
    }

    /// Returns the statuses of all runs.
    async fn statuses(&self) -> Vec<String> {
        let response = self.client.get(format!("{}/api/runs?limit=200", self.address)).send().await;
        let runs: Value = serde_json::from_str(&response.unwrap().text().await.unwrap()).unwrap();
        let runs = runs["runs"].as_array().unwrap().iter();
        runs.map(|it| it["status"].as_str().unwrap().to_owned()).collect()
    }
}

/// Starts the server, executes the runs concurrently, and checks that the memory returns to at
/// most twice the idle figure.
async fn measure(runs: usize) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), runs);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let idle = server.megabytes("VmRSS");
    let started = Instant::now();
    for seed in 0..runs {
        server.start_run(seed).await;
    }
    loop {
        let statuses = server.statuses().await;
        assert_eq!(statuses.len(), runs);
        let is_expected = |it: &String| matches!(&**it, "queued" | "running" | "complete");
        assert!(statuses.iter().all(is_expected), "{statuses:?}");
        if statuses.iter().all(|it| it == "complete") {
            break;
        }
        assert!(started.elapsed() < TIMEOUT, "{statuses:?}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let (duration, peak) = (started.elapsed(), server.megabytes("VmHWM"));
    let at_end = server.megabytes("VmRSS");
    tokio::time::sleep(RELEASE).await;
    let after = server.megabytes("VmRSS");
    println!(
        "{}: {runs} runs in {duration:.0?}: idle {idle:.0} MB, peak {peak:.0} MB, {at_end:.0} MB at the end of the last run, \
         {after:.0} MB {RELEASE:.0?} later",
        env::var("MEMORY_ENV").unwrap_or_else(|_| "default allocator".to_owned())
    );
    assert!(after <= 2.0 * idle, "{after:.0} MB after the runs, {idle:.0} MB before");
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_after_load_is_at_most_twice_the_idle_figure() {
    if !is_nightly() {
        println!("skipped; set GRAPH_NIGHTLY=1 to measure, which takes minutes");
        return;
    }
    let runs = env::var("MEMORY_RUNS").unwrap_or_else(|_| "48,200".to_owned());
    for runs in runs.split(',') {
        measure(runs.parse().unwrap()).await;
    }
}
