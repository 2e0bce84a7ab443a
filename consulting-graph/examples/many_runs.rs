//! Load test with many concurrent runs, each of which has many HTTP clients that read its events.
//!
//! ```sh
//! cargo run --release -p consulting-graph --example many_runs
//! ```
//!
//! Every client must receive every event of its run, in order. Each run also has one reader inside the server process.
//! The delay of an event is measured from its first arrival at any reader of the run.
#![expect(clippy::print_stdout, reason = "an example for the terminal")]

use std::{
    collections::HashMap,
    error::Error,
    fs,
    net::SocketAddr,
    time::{Duration, Instant},
};

use consulting_graph::{
    config::DEFAULT,
    data::DataOrigin,
    debate,
    debate_host::SandboxReuse,
    models::{Limit, ModelChoice},
    run::new_run,
    serve::{self, ServeOptions},
};
use graph_server::{Capacity, ReadOutcome, Service, http::Guard};
use sandbox_vm::{Isolation, guest};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

const RUNS: usize = 50;
const READERS_PER_RUN: usize = 10;
/// Number of rounds per debate. With two rounds, a run has about 180 events.
const ROUNDS: u32 = 2;

type AnyError = Box<dyn Error + Send + Sync>;
/// Time at which each event first arrived at any reader, by run id and sequence number.
type FirstSeen = HashMap<(String, u64), Instant>;
/// A run's id, and the sequence numbers and arrival times of the events that one reader received.
type Received = (String, Vec<(u64, Instant)>);

fn main() -> Result<(), AnyError> {
    guest::enter(debate::agent);
    graph_server::raise_descriptor_limit()?;
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(measure())
}

async fn measure() -> Result<(), AnyError> {
    let dir = std::env::temp_dir().join(format!("consulting-many-runs-{}", std::process::id()));
    let options = ServeOptions {
        runs_dir: dir.clone(),
        config: new_run::with_rounds(DEFAULT, ROUNDS),
        choice: ModelChoice::for_provider("scripted"),
        data: DataOrigin::Synthetic,
        as_of: "2026-11-15".parse().ok(),
        concurrency: 1,
        isolation: Isolation::Off,
        backend: Some("in-process".to_owned()),
        sandbox_reuse: SandboxReuse::None,
        capacity: Capacity { concurrent: RUNS, queued: 0 },
        max_streams: RUNS * READERS_PER_RUN,
        max_age: None,
        max_limit: Limit::default(),
        guard: Guard::new().rate_limit(u32::MAX),
    };
    let (service, router) = serve::open(options).await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let shutdown = std::future::pending();
    tokio::spawn(graph_server::serve(listener, router, service.clone(), Duration::ZERO, shutdown));

    let started = Instant::now();
    let mut internal = JoinSet::new();
    let mut readers = JoinSet::new();
    for seed in 0..RUNS {
        let id = start(address, seed).await?;
        internal.spawn(follow(service.clone(), id.clone()));
        for _ in 0..READERS_PER_RUN {
            readers.spawn(read(address, id.clone()));
        }
    }
    let live =
        service.count_by_status().await?.into_iter().filter(|it| it.0.is_active()).map(|it| it.1);
    let active: u64 = live.sum();
    let internal: Vec<Received> =
        internal.join_all().await.into_iter().collect::<Result<_, _>>()?;
    let readers: Vec<Received> = readers.join_all().await.into_iter().collect::<Result<_, _>>()?;
    let mut first = FirstSeen::new();
    for (id, received) in internal.iter().chain(&readers) {
        let stored = fs::read_to_string(dir.join(id).join("events.jsonl"))?.lines().count();
        if !received.iter().map(|it| it.0).eq(1..=stored as u64) {
            return Err(
                format!("a reader of {id} received different events than were stored").into()
            );
        }
        for (seq, at) in received {
            let seen = first.entry((id.clone(), *seq)).or_insert(*at);
            *seen = (*seen).min(*at);
        }
    }
    let since = |id: &str, seq: u64, at: Instant| at - first[&(id.to_owned(), seq)];
    let of = |(id, received): &Received| {
        received.iter().map(|it| since(id, it.0, it.1)).collect::<Vec<_>>()
    };
    let mut delays: Vec<Duration> = readers.iter().flat_map(of).collect();
    delays.sort();
    let events: usize = internal.iter().map(|it| it.1.len()).sum();
    let at = |part: f64| delays[((delays.len() - 1) as f64 * part) as usize];
    println!("runs      {RUNS}, {active} active when the last one started; {events} events");
    println!("readers   {}, each received every event in order", readers.len());
    println!("time      {:.1?} in total", started.elapsed());
    println!("delay     p50 {:.1?}, p99 {:.1?}, max {:.1?}", at(0.5), at(0.99), at(1.0));
    println!("memory    {}", peak_memory());
    fs::remove_dir_all(&dir)?;
    Ok(())
}

/// Starts a run and returns its id.
async fn start(address: SocketAddr, seed: usize) -> Result<String, AnyError> {
    let body = format!(r#"{{"ticker":"NVDA","seed":{seed}}}"#);
    let head = format!(
        "POST /api/analyze HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut lines = send(address, &head).await?;
    while let Some(line) = lines.next_line().await? {
        if let Ok(started) = serde_json::from_str::<Value>(&line) {
            return Ok(started["analysis_id"].as_str().ok_or("no id")?.to_owned());
        }
    }
    Err("the run did not start".into())
}

/// Reads a run's events over HTTP.
async fn read(address: SocketAddr, id: String) -> Result<Received, AnyError> {
    let head =
        format!("GET /api/stream/{id} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    let mut lines = send(address, &head).await?;
    let mut received = Vec::new();
    while let Some(line) = lines.next_line().await? {
        if let Some(seq) = line.strip_prefix("id: ") {
            received.push((seq.trim().parse()?, Instant::now()));
        }
    }
    Ok((id, received))
}

async fn send(
    address: SocketAddr,
    head: &str,
) -> Result<tokio::io::Lines<BufReader<TcpStream>>, AnyError> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(head.as_bytes()).await?;
    Ok(BufReader::new(stream).lines())
}

/// Reads a run's events inside the server process.
async fn follow(service: Service, id: String) -> Result<Received, AnyError> {
    let mut reader = service.read_events(&id, 0).await?;
    let mut received = Vec::new();
    while let ReadOutcome::Events(events) = reader.next().await? {
        let now = Instant::now();
        received.extend(events.iter().map(|it| (it.seq, now)));
    }
    Ok((id, received))
}

/// Returns the peak memory use of this process.
fn peak_memory() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|it| it.strip_prefix("VmHWM:"));
    line.map_or_else(|| "unknown".to_owned(), |it| it.trim().to_owned())
}
