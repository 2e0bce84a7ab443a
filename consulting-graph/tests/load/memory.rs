//! Memory of the server before, during and after many concurrent runs.

use std::{
    env,
    time::{Duration, Instant},
};

use crate::server::Server;
use test_support::is_nightly;

/// Time that all runs may take. It is far longer than they need.
const TIMEOUT: Duration = Duration::from_secs(3600);

/// Time within which the server must have released its memory after the last run.
const RELEASE: Duration = Duration::from_secs(20);

/// Starts the server, executes the runs concurrently, and checks that the memory afterwards is at most twice the memory
/// of the idle server.
async fn measure(runs: usize) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), 2, &format!("--max-runs {runs}"));
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
        env::var("LOAD_ENV").unwrap_or_else(|_| "default allocator".to_owned())
    );
    assert!(after <= 2.0 * idle, "{after:.0} MB after the runs, {idle:.0} MB before");
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_after_load_is_at_most_twice_the_memory_when_idle() {
    if !is_nightly() {
        println!("skipped; set GRAPH_NIGHTLY=1 to measure, which takes minutes");
        return;
    }
    let runs = env::var("LOAD_RUNS").unwrap_or_else(|_| "48,200".to_owned());
    for runs in runs.split(',') {
        measure(runs.parse().unwrap()).await;
    }
}
