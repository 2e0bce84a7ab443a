//! Replicas of a server that are killed while a worker executes their runs.

use std::{
    collections::BTreeSet,
    process::{Command, Stdio},
    time::Duration,
};

use fastrand::Rng;
use graph_cluster::StartRun;
use graph_tests::crash::seed;
use reqwest::Method;
use serde_json::{Map, Value, json};
use test_support::{DEADLINE, is_nightly, process::Process};
use tokio::{task::JoinHandle, time::timeout};

use crate::{
    cluster::Cluster,
    kill::check_effects,
    local::{self, JobSpec},
    pause::{self, PausePoint, pause_point},
};

const JOB: JobSpec = JobSpec { rounds: 4, width: 3, pause_ms: 20, ask: false };
/// Number of tasks of the job. Each round also plans and gathers.
const N_UPDATES: usize = (JOB.rounds * (JOB.width + 2)) as usize;

/// A server in its own process, which is killed when the value is dropped.
struct Replica {
    _process: Process,
    address: String,
    client: reqwest::Client,
}

impl Replica {
    fn start(cluster: &Cluster) -> Self {
        // The client requires a TLS provider, although this test uses plain HTTP.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut command = Command::new(env!("CARGO_BIN_EXE_cluster-demo"));
        command
            .args(["serve", "--database", &cluster.database])
            // The server ends if the process of the test dies.
            .args(["--listen", "127.0.0.1:0", "--stdin", "true"])
            .stdin(Stdio::piped());
        if let Some(server) = &cluster.restate {
            command.args(["--restate", &server.ingress]);
        }
        let (process, address) = Process::start_server(&mut command);
        // The server closes idle connections, possibly while the client sends a request on one of them.
        let client = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0).build();
        Self { _process: process, address, client: client.expect("a client for HTTP") }
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> Value {
        let request = self.client.request(method, format!("{}{path}", self.address));
        let request = request.header("content-type", "application/json").body(body.to_string());
        let response = request.send().await.expect("the server is running");
        let text = response.text().await.expect("the answer is text");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}: {text}"))
    }

    async fn get(&self, path: &str) -> Value {
        self.send(Method::GET, path, &Value::Null).await
    }

    async fn post(&self, path: &str, body: &Value) -> Value {
        self.send(Method::POST, path, body).await
    }

    /// Creates a thread and returns its path.
    async fn new_thread(&self) -> String {
        let thread = self.post("/threads", &json!({})).await;
        format!("/threads/{}", thread["thread_id"].as_str().expect("a thread has an id"))
    }

    /// Starts a run of a thread and returns its id.
    async fn start_run(&self, thread: &str, request: &StartRun) -> String {
        let body = json!({
            "assistant_id": "job", "input": request.input, "durability": "sync", "stream_mode": "updates",
        });
        let run = self.post(&format!("{thread}/runs"), &body).await;
        run["run_id"].as_str().expect("a run has an id").to_owned()
    }

    /// Returns whether a run is active. Panics if it has failed.
    async fn is_active(&self, thread: &str, run: &str) -> bool {
        let run = self.get(&format!("{thread}/runs/{run}")).await;
        let status = run["status"].as_str();
        assert!(matches!(status, Some("pending" | "running" | "success")), "{run}");
        status != Some("success")
    }

    /// Compares the state of a thread with the values of a local run.
    async fn check_state(&self, thread: &str, expected: &Map<String, Value>) {
        let state = self.get(&format!("{thread}/state")).await;
        for field in ["round", "log", "total"] {
            assert_eq!(state["values"][field], expected[field], "seed {}", seed());
        }
    }

    /// Reads the stream of a run to its end, and returns the data of the events `updates`.
    fn read_updates(&self, path: &str) -> JoinHandle<Vec<String>> {
        let request = self.client.get(format!("{}{path}", self.address));
        let request = request.header("last-event-id", "-1");
        tokio::spawn(async move {
            let response = request.send().await.expect("the server is running");
            updates(&response.text().await.expect("the stream ends with the run"))
        })
    }
}

/// Returns the data of the events `updates` in a stream.
fn updates(stream: &str) -> Vec<String> {
    let is_update = |event: &&str| event.lines().any(|it| it == "event: updates");
    let data =
        |event: &str| event.lines().find_map(|it| it.strip_prefix("data: ")).map(str::to_owned);
    stream.split("\r\n\r\n").filter(is_update).filter_map(data).collect()
}

/// Kills a random replica at a random point of each run, and replaces it. Any replica returns the result, and the other
/// replica streams each event once. A run that ends before its server is killed does not count.
pub(crate) async fn killed_servers_lose_nothing(cluster: &Cluster) {
    let kills = if is_nightly() { 30 } else { 2 };
    let mut rng = Rng::with_seed(seed());
    let _worker = cluster.worker().await;
    let mut n_active = 0;
    let mut replicas = [Replica::start(cluster), Replica::start(cluster)];
    for number in 0.. {
        if n_active == kills {
            break;
        }
        assert!(number < 20 * kills, "the runs end before their server is killed");
        let request = JOB.request(&format!("job {number}"), "local");
        let expected = local::run(&request).await.values;
        let thread = replicas[0].new_thread().await;
        // Starting a replica takes longer than the run.
        let spare = Replica::start(cluster);
        let logged = cluster.effects().len();
        let run = replicas[0].start_run(&thread, &request).await;
        let killed = rng.usize(..2);
        let updates = replicas[1 - killed].read_updates(&format!("{thread}/runs/{run}/stream"));
        let point = logged + rng.usize(..2 * (JOB.rounds * JOB.width) as usize);
        let has_ended =
            async || cluster.client.run(&run).await.is_ok_and(|it| !it.status.is_active());
        let reaches_point = async {
            while cluster.effects().len() < point && !has_ended().await {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(DEADLINE, reaches_point).await.expect("the run continues");
        // Dropping the replica kills its process with SIGKILL.
        replicas[killed] = spare;
        n_active += usize::from(!has_ended().await);
        let ends = async {
            while replicas[rng.usize(..2)].is_active(&thread, &run).await {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(DEADLINE, ends).await.expect("the run ends");
        let updates = timeout(DEADLINE, updates).await.expect("the stream ends");
        let updates = updates.expect("the stream is complete");
        let distinct: BTreeSet<&String> = updates.iter().collect();
        assert_eq!((updates.len(), distinct.len()), (N_UPDATES, N_UPDATES), "{updates:#?}");
        replicas[0].check_state(&thread, &expected).await;
    }
    // No worker has failed.
    check_effects(cluster, 0);
    println!("{kills} kills of servers with an active run, seed {}", seed());
}

/// Statements at which servers are killed: a server claims a run, passes it to the cluster, stores its events, and ends
/// it.
const POINTS: [PausePoint; 4] = [
    pause_point("graph_server.queue", "UPDATE", "NEW.fence > OLD.fence"),
    pause_point("graph_cluster.run", "INSERT", "true"),
    pause_point("graph_server.event", "INSERT", "true"),
    pause_point("graph_server.queue", "DELETE", "true"),
];

/// Kills the only server while it executes a certain statement. The next server completes the run.
pub(crate) async fn servers_killed_during_a_statement_lose_nothing(cluster: &Cluster) {
    let _worker = cluster.worker().await;
    pause::prepare(cluster);
    for (number, point) in POINTS.iter().enumerate() {
        let replica = Replica::start(cluster);
        let thread = replica.new_thread().await;
        pause::set(cluster, point, 0);
        let request = JOB.request(&format!("job {number}"), "local");
        let run = replica.start_run(&thread, &request).await;
        pause::wait_until_reached(cluster, point).await;
        drop(replica);
        pause::release(cluster, point);
        // The next server does not have to wait for the end of the lease.
        cluster.sql("UPDATE graph_server.queue SET lease_until = now() WHERE holder IS NOT NULL");
        let replica = Replica::start(cluster);
        let ends = async {
            while replica.is_active(&thread, &run).await {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(DEADLINE, ends).await.unwrap_or_else(|_| panic!("{point:?}: the run ends"));
        let expected = local::run(&request).await.values;
        replica.check_state(&thread, &expected).await;
    }
    // No worker has failed.
    check_effects(cluster, 0);
}
