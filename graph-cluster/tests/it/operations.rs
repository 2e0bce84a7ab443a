//! Operation of a cluster: limits of tenants, shared values and deletion of runs, status and metrics.

use std::{
    collections::BTreeSet, future::pending, net::SocketAddr, process::Command, time::Duration,
};

use futures_util::future::join_all;
use graph_cluster::{ClusterError, RunStatus, RunStore, StartRun, serve_status};
use graph_server::http::{Guard, KeyHash};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::{cluster::Cluster, kill::Effect, local::JobSpec};

const SMALL: JobSpec = JobSpec { rounds: 1, width: 1, pause_ms: 20, ask: false };
const ENDLESS: JobSpec = JobSpec { pause_ms: 3_600_000, ..SMALL };

async fn start(cluster: &Cluster, request: &StartRun) {
    cluster.client.start(request).await.expect("the run starts");
}

async fn status(cluster: &Cluster, run: &str) -> RunStatus {
    cluster.client.run(run).await.expect("the run exists").status
}

pub(crate) async fn runs_of_a_limited_tenant_wait(cluster: &Cluster) {
    cluster.client.limit_tenant("acme", 1).await.expect("the database is running");
    let _worker = cluster.worker().await;
    start(cluster, &ENDLESS.request("a", "a").tenant("acme")).await;
    cluster.wait_for_effects(1, "a").await;
    start(cluster, &ENDLESS.request("b", "b").tenant("acme")).await;
    // `PostgresQueue` claims runs in the order in which they were started, so the worker has skipped the second run.
    start(cluster, &SMALL.request("other", "other")).await;
    cluster.client.wait("other").await.expect("the run exists");
    assert_eq!(status(cluster, "a").await, RunStatus::Running);
    assert_eq!(status(cluster, "b").await, RunStatus::Queued);
    cluster.client.limit_tenant("acme", 2).await.expect("the database is running");
    while status(cluster, "b").await == RunStatus::Queued {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) async fn limit_of_a_tenant_holds_for_concurrent_claims(cluster: &Cluster) {
    cluster.client.limit_tenant("acme", 2).await.expect("the database is running");
    let _workers = (cluster.worker().await, cluster.worker().await, cluster.worker().await);
    for number in 0..12 {
        let run = format!("r{number}");
        start(cluster, &SMALL.request(&run, &run).tenant("acme")).await;
    }
    for number in 0..12 {
        let run = cluster.client.wait(&format!("r{number}")).await.expect("the run exists");
        assert_eq!(run.status, RunStatus::Done, "{run:?}");
    }
    // A result is recorded before its run ends.
    let (mut executing, mut most) = (0_i32, 0);
    for line in cluster.effects() {
        executing += if Effect::parse(&line).is_start { 1 } else { -1 };
        most = most.max(executing);
    }
    assert!(most <= 2, "{most} runs were executing");
}

pub(crate) async fn runs_are_deleted_unless_they_are_active(cluster: &Cluster) {
    let client = &cluster.client;
    let _worker = cluster.worker().await;
    let asking = JobSpec { ask: true, ..SMALL };
    for request in [SMALL.request("a", "t"), SMALL.request("b", "t"), asking.request("c", "u")] {
        start(cluster, &request).await;
        client.wait(&request.id).await.expect("the run exists");
    }
    start(cluster, &ENDLESS.request("d", "v")).await;
    cluster.wait_for_effects(7, "d").await;
    let active = client.delete("d").await.expect_err("the run is active");
    assert!(matches!(active, ClusterError::ActiveRun(_)), "{active}");
    let active = client.delete_runs_of_thread("v").await.expect_err("the run is active");
    assert!(matches!(active, ClusterError::ActiveRun(_)), "{active}");
    client.delete("a").await.expect("the run is done");
    let unknown = client.delete("a").await.expect_err("the run is deleted");
    assert!(matches!(unknown, ClusterError::UnknownRun(_)), "{unknown}");
    let old = client.delete_ended(Duration::from_secs(3600)).await.expect("the database runs");
    let ended = client.delete_ended(Duration::ZERO).await.expect("the database runs");
    assert_eq!((old, ended), (0, 1));
    assert_eq!(client.delete_runs_of_thread("u").await.expect("the run waits"), 1);
    assert_eq!(cluster.sql("SELECT string_agg(id, ',') FROM graph_cluster.run"), "d");
    assert_eq!(cluster.sql("SELECT count(*) FROM graph_cluster.event WHERE run <> 'd'"), "0");
}

pub(crate) async fn concurrent_updates_of_a_value_are_all_applied(cluster: &Cluster) {
    start(cluster, &SMALL.request("r", "t")).await;
    // Each store is a process with its own connections.
    let stores = join_all((0..2).map(|_| RunStore::connect(&cluster.database))).await;
    let stores: Vec<_> = stores.into_iter().map(|it| it.expect("the database runs")).collect();
    let updates = (0..20).map(|number| {
        let insert = move |values: &mut BTreeSet<usize>| values.insert(number);
        stores[number % stores.len()].update_value("r", "numbers", insert)
    });
    for is_new in join_all(updates).await {
        assert!(is_new.expect("the database runs"));
    }
    let numbers: Option<BTreeSet<usize>> =
        stores[0].read_value("r", "numbers").await.expect("the database runs");
    assert_eq!(numbers, Some((0..20).collect()));
    cluster.client.cancel("r").await.expect("the run is queued");
    cluster.client.delete("r").await.expect("the run has ended");
    let deleted: Option<BTreeSet<usize>> =
        stores[0].read_value("r", "numbers").await.expect("the database runs");
    assert_eq!(deleted, None);
}

pub(crate) async fn old_tables_are_updated_and_newer_ones_are_rejected(cluster: &Cluster) {
    start(cluster, &SMALL.request("claimed", "s")).await;
    start(cluster, &SMALL.request("queued", "t")).await;
    cluster.sql("UPDATE graph_cluster.run SET fence = 1 WHERE id = 'claimed'");
    cluster.sql("COMMENT ON SCHEMA graph_cluster IS 'version 1'");
    RunStore::connect(&cluster.database).await.expect("the tables are updated");
    let versions = "SELECT string_agg(id, ',') FROM graph_cluster.run WHERE version = ''";
    assert_eq!(cluster.sql(versions), "claimed");
    cluster.sql("COMMENT ON SCHEMA graph_cluster IS 'version 1000'");
    let error = RunStore::connect(&cluster.database).await.expect_err("the tables are newer");
    assert!(matches!(error, ClusterError::NewerSchema { found: 1000, .. }), "{error}");
}

pub(crate) async fn status_and_metrics_show_what_runs_where(cluster: &Cluster) {
    let worker = cluster.worker().await;
    start(cluster, &SMALL.request("small", "s")).await;
    cluster.client.wait("small").await.expect("the run exists");
    start(cluster, &ENDLESS.request("endless", "t").tenant("the \"best\"")).await;
    cluster.wait_for_effects(3, "endless").await;
    let address = start_status_server(cluster, Guard::new()).await;
    let get = async |path: &str| get(address, path, "").await;
    let metrics = get("/metrics").await;
    let worker_runs = format!("graph_cluster_worker_runs{{worker=\"{}\"}} 1", worker.id);
    for line in [
        "graph_cluster_runs{graph=\"job\",status=\"done\"} 1",
        "graph_cluster_runs{graph=\"job\",status=\"running\"} 1",
        r#"graph_cluster_tenant_runs{tenant="the \"best\"",status="running"} 1"#,
        "graph_cluster_workers{state=\"working\"} 1",
        &worker_runs,
    ] {
        assert!(metrics.contains(line), "`{line}` is not in:\n{metrics}");
    }
    let status = get("/status").await;
    assert!(status.contains("\"run\":\"endless\""), "{status}");
    let page = get("/").await;
    assert!(page.contains("<td>endless</td><td>job</td><td>t</td>"), "{page}");
    assert!(get("/health").await.starts_with("HTTP/1.1 200"));
    let program = Command::new(env!("CARGO_BIN_EXE_cluster"))
        .arg("status")
        .env("DATABASE_URL", &cluster.database)
        .output();
    let text = String::from_utf8(program.expect("the program is built").stdout);
    let text = text.expect("the output is text");
    assert!(text.contains("run endless of job on thread t"), "{text}");
    assert!(text.contains("runs: 1 done, 1 running"), "{text}");
}

/// Starts a status server and returns its address.
async fn start_status_server(cluster: &Cluster, guard: Guard) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("the listener has an address");
    tokio::spawn(serve_status(listener, cluster.client.clone(), guard, pending()));
    address
}

/// Sends a request with additional header lines on a new connection, and returns the answer.
async fn get(address: SocketAddr, path: &str, headers: &str) -> String {
    let mut connection = TcpStream::connect(address).await.expect("the server listens");
    let start = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
    let request = format!("{start}{headers}\r\n");
    connection.write_all(request.as_bytes()).await.expect("the server reads");
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.expect("the server answers");
    answer
}

pub(crate) async fn status_server_limits_connections_and_requires_its_key(cluster: &Cluster) {
    const KEY: &str = "0123456789abcdef";
    let key = KeyHash::of_checked(KEY).expect("the key is long enough");
    let address = start_status_server(cluster, Guard::new().key(key).connection_limit(2)).await;
    let mut idle = Vec::new();
    for _ in 0..3 {
        idle.push(TcpStream::connect(address).await.expect("the server listens"));
    }
    // The third connection has replaced the first.
    assert_eq!(idle[0].read(&mut [0]).await.expect("the server closes the connection"), 0);
    for (path, headers, status) in [
        ("/status", "", 401),
        ("/metrics", "", 401),
        ("/health", "", 200),
        ("/status", &*format!("x-api-key: {KEY}\r\n"), 200),
    ] {
        let answer = get(address, path, headers).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{path}: {answer}");
    }
    drop(idle);
    for (key, expected) in [(None, "set CLUSTER_API_KEY"), (Some(""), "invalid CLUSTER_API_KEY")] {
        let mut public = Command::new(env!("CARGO_BIN_EXE_cluster"));
        public.args(["serve", "0.0.0.0:0"]).env("DATABASE_URL", &cluster.database);
        public.env_remove("CLUSTER_API_KEY").envs(key.map(|it| ("CLUSTER_API_KEY", it)));
        let output = public.output().expect("the program is built");
        let problem = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && problem.contains(expected), "{problem}");
    }
}
