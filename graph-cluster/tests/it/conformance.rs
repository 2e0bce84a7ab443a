//! The recorded conformance cases, with their runs executed by a cluster and their tasks spread over workers.

use std::path::Path;

use graph_cluster::Scheduler;
use graph_tests::{cluster::CaseCluster, compare, crash::is_nightly, postgres, read};

/// Runs the cases of a file with `PostgresQueue`.
async fn check(file: &str, sample: usize) {
    let Some(url) = postgres::fresh_database() else { return };
    let cluster = CaseCluster::connect(&url).await.expect("the database was just created");
    check_on(&cluster, file, sample).await;
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

#[cfg(feature = "restate")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handwritten_cases_give_the_recorded_answers_with_restate() {
    use std::net::{Ipv4Addr, SocketAddr};

    use graph_cluster::{Restate, RunStore, Worker};
    use graph_store::PostgresSaver;
    use test_support::ports::free_port;

    let Some(url) = postgres::fresh_database() else { return };
    let Some(server) = crate::restate_server::RestateServer::start().await else { return };
    // The workers of the runs listen on this address, one after the other.
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    server.workers.add(address);
    let restate = Restate::new(&server.ingress).expect("the address is valid").listen(address);
    // The server asks a worker for its services when the address is registered. This worker executes nothing.
    let _saver = PostgresSaver::connect(&url).await.expect("the database was just created");
    let store = RunStore::connect(&url).await.expect("the database was just created");
    let served = Worker::new(store).serve(restate.clone(), server.register()).await;
    served.expect("the worker drains");
    let cluster = CaseCluster::with_scheduler(&url, restate).await.expect("the database runs");
    check_on(&cluster, "hand.jsonl", 25).await;
}
