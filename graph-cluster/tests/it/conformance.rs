//! The recorded conformance cases, with their runs executed by a cluster and their tasks spread over workers.

use std::path::Path;

use graph_cluster::Scheduler;
use graph_tests::{cluster::CaseCluster, compare, postgres, read};
use test_support::{is_nightly, restate::Server};

/// Runs the cases of a file with `PostgresQueue`.
async fn check(file: &str, sample: usize) {
    let Some(url) = postgres::fresh_database() else { return };
    let cluster = CaseCluster::connect(&url).await.expect("the database was just created");
    check_on(&cluster, file, sample).await;
}

/// Runs the cases of a file with `Restate`.
async fn check_with_restate(file: &str, sample: usize) {
    let Some(url) = postgres::fresh_database() else { return };
    let Some(server) = Server::start(1) else { return };
    let cluster = CaseCluster::connect_with_restate(&url, server).await;
    check_on(&cluster.expect("the servers are running"), file, sample).await;
}

/// Runs the cases of a file. Without `GRAPH_NIGHTLY`, runs every `sample`-th case.
async fn check_on<S>(cluster: &CaseCluster<S>, file: &str, sample: usize)
where
    S: Scheduler + Clone + 'static,
{
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/conformance").join(file);
    let cases = read(&path).expect("the fixtures are part of the repository");
    let mut differing = Vec::new();
    let step = if is_nightly() { 1 } else { sample };
    for case in cases.iter().step_by(step) {
        let got = cluster.run(case).await.expect("the database is running");
        if let Some(difference) = compare(case, &got) {
            differing.push(format!("{}: {difference}", case.id));
        }
    }
    let counts = cluster.counts();
    println!("{file}: {counts}");
    assert!(differing.is_empty(), "{} differ:\n{}", differing.len(), differing.join("\n"));
    // Almost all runs of the cases have a thread.
    assert!(counts.on_cluster() > 5 * counts.local(), "{counts}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handwritten_cases_give_the_recorded_answers() {
    check("hand.jsonl", 6).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_cases_give_the_recorded_answers() {
    check("random.jsonl", 10).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn regression_cases_give_the_recorded_answers() {
    check("found.jsonl", 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handwritten_cases_give_the_recorded_answers_with_restate() {
    check_with_restate("hand.jsonl", 25).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_cases_give_the_recorded_answers_with_restate() {
    check_with_restate("random.jsonl", 40).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn regression_cases_give_the_recorded_answers_with_restate() {
    check_with_restate("found.jsonl", 12).await;
}
