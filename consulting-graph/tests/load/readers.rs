//! Many readers of the events of many runs.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use serde_json::Value;
use test_support::is_nightly;
use tokio::task::JoinSet;

use crate::server::Server;

/// Number of readers of each run.
const READERS: usize = 5;

/// Sequence numbers and arrival times of the events that a reader received.
type Received = Vec<(u64, Instant)>;

/// Reads the events of a run to the end. Connects again after a lost connection, as browsers do.
async fn read(server: &Server, id: &str) -> Received {
    let mut received = Vec::new();
    loop {
        let mut response = server.stream(id, received.len()).await;
        // The run has ended, and all its events were received.
        if response.status() == 204 {
            return received;
        }
        assert_eq!(response.status(), 200);
        // Collects bytes, because a chunk may end in the middle of a character.
        let mut bytes = Vec::new();
        while let Ok(Some(chunk)) = response.chunk().await {
            let now = Instant::now();
            bytes.extend_from_slice(&chunk);
            while let Some(end) = bytes.windows(2).position(|it| it == b"\n\n") {
                let message = String::from_utf8(bytes.drain(..end + 2).collect()).unwrap();
                let field = |name: &str| message.lines().find_map(|it| it.strip_prefix(name));
                if field("event: ") == Some("end") {
                    let data: Value = serde_json::from_str(field("data: ").unwrap()).unwrap();
                    assert_eq!(data["status"], "complete", "{id}");
                    return received;
                }
                if let Some(seq) = field("id: ") {
                    received.push((seq.parse().unwrap(), now));
                }
            }
        }
    }
}

/// Starts a run and reads its events with all its readers.
async fn run(server: Arc<Server>, seed: usize) -> (String, Vec<Received>) {
    let id = server.start_run(seed).await;
    let received = join_all((0..READERS).map(|_| read(&server, &id))).await;
    (id, received)
}

/// Returns the delays of events, measured from their first arrival at any reader of the run, in ascending order.
fn delays<'a>(runs: impl Iterator<Item = &'a [Received]>) -> Vec<Duration> {
    let mut delays = Vec::new();
    for received in runs {
        let mut first: BTreeMap<u64, Instant> = BTreeMap::new();
        for (seq, at) in received.iter().flatten() {
            let seen = first.entry(*seq).or_insert(*at);
            *seen = (*seen).min(*at);
        }
        delays.extend(received.iter().flatten().map(|(seq, at)| *at - first[seq]));
    }
    delays.sort();
    delays
}

/// Checks that a reader received every event that the server stored, in order.
fn check_order(dir: &Path, id: &str, received: &[(u64, Instant)]) {
    let stored = fs::read_to_string(dir.join("runs").join(id).join("events.jsonl")).unwrap();
    let expected = 1..=stored.lines().count() as u64;
    assert!(received.iter().map(|it| it.0).eq(expected), "{id}: {received:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_receive_every_event_once_and_in_order() {
    graph_server::raise_descriptor_limit().unwrap();
    let (runs, rounds) = if is_nightly() { (200, 2) } else { (4, 1) };
    let dir = tempfile::tempdir().unwrap();
    // A reader that connects again may arrive before the server notices that its old connection is closed.
    let streams = 2 * runs * READERS;
    let server = Server::start(dir.path(), rounds, &format!("--max-streams {streams}"));
    let idle = server.megabytes("VmRSS");
    let server = Arc::new(server);
    let started = Instant::now();
    let mut tasks: JoinSet<(String, Vec<Received>)> =
        (0..runs).map(|seed| run(server.clone(), seed)).collect();
    let (mut all, mut slowest_health_check) = (Vec::new(), Duration::ZERO);
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            ended = tasks.join_next() => match ended {
                Some(ended) => all.push(ended.unwrap()),
                None => break,
            },
            _ = ticks.tick() => {
                let started = Instant::now();
                server.check_health().await;
                slowest_health_check = slowest_health_check.max(started.elapsed());
            }
        }
    }
    let duration = started.elapsed();
    for (id, received) in &all {
        received.iter().for_each(|it| check_order(dir.path(), id, it));
    }
    let delays = delays(all.iter().map(|it| it.1.as_slice()));
    let at = |percent: usize| delays[(delays.len() - 1) * percent / 100];
    println!(
        "{runs} runs with {} readers in {duration:.0?}: {} events, delay p50 {:.1?}, p99 {:.1?}, max {:.1?}; slowest \
         health check {slowest_health_check:.1?}; idle {idle:.0} MB, peak {:.0} MB",
        runs * READERS,
        delays.len(),
        at(50),
        at(99),
        at(100),
        server.megabytes("VmHWM")
    );
}
