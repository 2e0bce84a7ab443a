//! Many readers of the streams of many runs, on a server with many idle threads.

use std::{
    io::{self, Write},
    time::{Duration, Instant},
};

use futures_util::{StreamExt, future::join_all, stream};
use reqwest::Response;
use serde_json::{Value, json};
use test_support::is_nightly;

use crate::reference::Reference;

/// Number of requests that create threads at the same time.
const CREATORS: usize = 20;

struct Load {
    idle_threads: usize,
    runs: usize,
    /// Number of readers of each run, including the client that starts it.
    readers: usize,
    /// Number of events of each run.
    steps: u64,
    /// Pause between the events of a run, in seconds.
    delay: f64,
    /// Limit of the server's memory in MiB, in debug builds too.
    max_memory: u64,
}

impl Load {
    fn new() -> Self {
        if is_nightly() {
            Self {
                idle_threads: 10_000,
                runs: 200,
                readers: 5,
                steps: 200,
                delay: 0.2,
                max_memory: 600,
            }
        } else {
            Self { idle_threads: 500, runs: 20, readers: 5, steps: 50, delay: 0.1, max_memory: 300 }
        }
    }
}

/// The events that a reader received.
struct Received {
    /// Time from the request to the first event.
    first: Duration,
    ids: Vec<(u64, u64)>,
    ticks: Vec<u64>,
    /// The last state.
    values: Value,
}

/// Reads a stream to its end.
async fn read(mut response: Response, started: Instant) -> Received {
    let (mut text, mut first) = (String::new(), None);
    while let Some(chunk) = response.chunk().await.unwrap() {
        first.get_or_insert_with(|| started.elapsed());
        text.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    let first = first.unwrap();
    let mut received = Received { first, ids: vec![], ticks: vec![], values: Value::Null };
    for event in text.split("\r\n\r\n").filter(|it| it.starts_with("event: ")) {
        let field = |name: &str| event.lines().find_map(|it| it.strip_prefix(name)).unwrap();
        let (seq, part) = field("id: ").split_once('-').unwrap();
        received.ids.push((seq.parse().unwrap(), part.parse().unwrap()));
        let data: Value = serde_json::from_str(field("data: ")).unwrap();
        match field("event: ") {
            "custom" => received.ticks.push(data["tick"].as_u64().unwrap()),
            "values" => received.values = data,
            other => assert_eq!(other, "metadata", "{data}"),
        }
    }
    received
}

/// Starts a run and reads it with all its readers.
async fn run(server: &Reference, load: &Load) -> Vec<Received> {
    let thread = server.new_thread().await;
    let body = json!({
        "assistant_id": "slow",
        "input": { "steps": load.steps, "delay": load.delay },
        "stream_mode": ["custom", "values"],
        "stream_resumable": true,
    });
    let started = Instant::now();
    let response = server.send(&format!("{thread}/runs/stream"), &body).await;
    let run = response.headers()["content-location"].to_str().unwrap().to_owned();
    let others = (1..load.readers).map(|_| async {
        let started = Instant::now();
        read(server.join(&run).await, started).await
    });
    let (own, mut received) =
        futures_util::future::join(read(response, started), join_all(others)).await;
    received.insert(0, own);
    received
}

/// Checks that the server executes this number of runs at the same time.
async fn check_concurrency(server: &Reference, runs: usize) {
    let body = json!({ "assistant_id": "slow", "input": { "steps": 1, "delay": 3600 } });
    let paths = join_all((0..runs).map(|_| async {
        let runs = format!("{}/runs", server.new_thread().await);
        let run = server.post(&runs, &body).await;
        format!("{runs}/{}", run["run_id"].as_str().unwrap())
    }));
    let paths = paths.await;
    for path in &paths {
        while server.get(path).await["status"] != "running" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    for path in &paths {
        server.send(&format!("{path}/cancel?wait=1"), &json!({})).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_receive_every_event_once_and_in_order() {
    let load = Load::new();
    let data = tempfile::tempdir().unwrap();
    let server = Reference::start(data.path());
    let mut out = io::stderr();
    let mut report = |what: &str| {
        let (now, highest) = server.memory();
        writeln!(out, "{what}; memory {now} MiB, at most {highest} MiB").unwrap();
    };
    report("server started");

    let started = Instant::now();
    let threads = stream::iter(0..load.idle_threads).map(|_| server.new_thread());
    threads.buffer_unordered(CREATORS).for_each(async |_| {}).await;
    report(&format!("{} idle threads in {:.1?}", load.idle_threads, started.elapsed()));

    let started = Instant::now();
    let last = json!({ "status": "idle", "limit": 10, "offset": load.idle_threads - 10 });
    let last = server.post("/threads/search", &last).await;
    assert_eq!(last.as_array().unwrap().len(), 10);
    report(&format!("a search for the last 10 of them in {:.1?}", started.elapsed()));

    check_concurrency(&server, load.runs).await;
    let started = Instant::now();
    let runs = join_all((0..load.runs).map(|_| run(&server, &load))).await;
    let elapsed = started.elapsed();

    for received in runs.iter().flatten() {
        assert!(received.ids.is_sorted_by(|a, b| a < b), "{:?}", received.ids);
        assert!(received.ticks.iter().copied().eq(1..=load.steps), "{:?}", received.ticks);
        assert_eq!(received.values["ticks"], load.steps);
    }
    for received in &runs {
        assert!(received.iter().all(|it| it.ids == received[0].ids), "readers differ");
    }
    let readers = load.runs * load.readers;
    let events: usize = runs.iter().flatten().map(|it| it.ids.len()).sum();
    report(&format!("{} runs at once with {readers} readers in {elapsed:.1?}", load.runs));
    let mut first: Vec<_> = runs.iter().map(|it| it[0].first).collect();
    first.sort();
    let (median, high) = (first[first.len() / 2], first[first.len() * 99 / 100]);
    report(&format!("first event: median {median:.1?}, 99 % {high:.1?}; {events} events"));

    let started = Instant::now();
    let short = json!({ "assistant_id": "tiny", "input": { "value": "x" } });
    let short = stream::iter(0..10 * load.runs).map(|_| server.post("/runs/wait", &short));
    let values: Vec<_> = short.buffer_unordered(CREATORS).collect().await;
    assert!(values.iter().all(|it| it["value"] == "xab"));
    let rate = values.len() as f64 / started.elapsed().as_secs_f64();
    report(&format!("{rate:.0} short runs per second, {CREATORS} at a time"));
    let (_, highest) = server.memory();
    assert!(highest < load.max_memory, "the server used {highest} MiB");
}
