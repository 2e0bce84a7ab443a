//! Measures a crowd: many runs at once, each with many readers of its events over HTTP.
//!
//! ```sh
//! cargo run --release -p consulting-graph --example crowd
//! ```
//!
//! Every reader has to get every event of its run in order, as the run's own list has it. How long an event takes to a
//! reader is counted from when the first of all readers, one within the server among them, has it.
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
    data::From,
    debate,
    models::{Choice, Limit},
    run::new,
    serve::{self, Options},
};
use graph_server::{Capacity, Read, Service, http::Guard};
use sandbox_vm::{Isolation, guest};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

const RUNS: usize = 50;
const READERS_OF_EACH: usize = 10;
/// Rounds of each debate, which makes about 180 events a run.
const ROUNDS: u32 = 2;

type Failed = Box<dyn Error + Send + Sync>;
/// When somebody had an event first, by run and number.
type Told = HashMap<(String, u64), Instant>;
/// The numbers of a run's events as one reader got them, and when.
type Got = (String, Vec<(u64, Instant)>);

fn main() -> Result<(), Failed> {
    guest::enter(debate::agent);
    graph_server::lift_descriptor_limit()?;
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(measure())
}

async fn measure() -> Result<(), Failed> {
    let folder = std::env::temp_dir().join(format!("consulting-crowd-{}", std::process::id()));
    let options = Options {
        runs: folder.clone(),
        config: new::with_rounds(DEFAULT, ROUNDS),
        choice: Choice::of("scripted"),
        data: From::Synthetic,
        as_of: "2026-11-15".parse().ok(),
        concurrency: 1,
        isolation: Isolation::Off,
        backend: Some("in-process".to_owned()),
        capacity: Capacity { at_once: RUNS, queued: 0 },
        streams: RUNS * READERS_OF_EACH,
        most: Limit::default(),
        guard: Guard::new().rate(u32::MAX),
    };
    let (service, router) = serve::open(options).await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let ending = std::future::pending();
    tokio::spawn(graph_server::serve(listener, router, service.clone(), Duration::ZERO, ending));

    let begun = Instant::now();
    let mut within = JoinSet::new();
    let mut readers = JoinSet::new();
    for seed in 0..RUNS {
        let id = start(address, seed).await?;
        within.spawn(follow(service.clone(), id.clone()));
        for _ in 0..READERS_OF_EACH {
            readers.spawn(read(address, id.clone()));
        }
    }
    let live = service.count().await?.into_iter().filter(|it| it.0.is_live()).map(|it| it.1);
    let at_once: u64 = live.sum();
    let within: Vec<Got> = within.join_all().await.into_iter().collect::<Result<_, _>>()?;
    let readers: Vec<Got> = readers.join_all().await.into_iter().collect::<Result<_, _>>()?;
    let mut first = Told::new();
    for (id, got) in within.iter().chain(&readers) {
        let stored = fs::read_to_string(folder.join(id).join("events.jsonl"))?.lines().count();
        if !got.iter().map(|it| it.0).eq(1..=stored as u64) {
            return Err(format!("a reader of {id} got other events than there are").into());
        }
        for (seq, at) in got {
            let told = first.entry((id.clone(), *seq)).or_insert(*at);
            *told = (*told).min(*at);
        }
    }
    let since = |id: &str, seq: u64, at: Instant| at - first[&(id.to_owned(), seq)];
    let of = |(id, got): &Got| got.iter().map(|it| since(id, it.0, it.1)).collect::<Vec<_>>();
    let mut delays: Vec<Duration> = readers.iter().flat_map(of).collect();
    delays.sort();
    let events: usize = within.iter().map(|it| it.1.len()).sum();
    let at = |part: f64| delays[((delays.len() - 1) as f64 * part) as usize];
    println!("runs      {RUNS}, {at_once} live when the last was started; {events} events");
    println!("readers   {}, each got every event in order", readers.len());
    println!("time      {:.1?} for all", begun.elapsed());
    println!("delay     p50 {:.1?}, p99 {:.1?}, longest {:.1?}", at(0.5), at(0.99), at(1.0));
    println!("memory    {}", peak_memory());
    fs::remove_dir_all(&folder)?;
    Ok(())
}

/// Starts a run.
async fn start(address: SocketAddr, seed: usize) -> Result<String, Failed> {
    let body = format!(r#"{{"ticker":"NVDA","seed":{seed}}}"#);
    let head = format!(
        "POST /api/analyze HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut lines = ask(address, &head).await?;
    while let Some(line) = lines.next_line().await? {
        if let Ok(started) = serde_json::from_str::<Value>(&line) {
            return Ok(started["analysis_id"].as_str().ok_or("no id")?.to_owned());
        }
    }
    Err("a run was not started".into())
}

/// Reads a run's events over HTTP: their numbers, and when they came.
async fn read(address: SocketAddr, id: String) -> Result<Got, Failed> {
    let head =
        format!("GET /api/stream/{id} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    let mut lines = ask(address, &head).await?;
    let mut got = Vec::new();
    while let Some(line) = lines.next_line().await? {
        if let Some(seq) = line.strip_prefix("id: ") {
            got.push((seq.trim().parse()?, Instant::now()));
        }
    }
    Ok((id, got))
}

async fn ask(
    address: SocketAddr,
    head: &str,
) -> Result<tokio::io::Lines<BufReader<TcpStream>>, Failed> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(head.as_bytes()).await?;
    Ok(BufReader::new(stream).lines())
}

/// Reads a run's events within the server.
async fn follow(service: Service, id: String) -> Result<Got, Failed> {
    let mut reader = service.read(&id, 0).await?;
    let mut got = Vec::new();
    while let Read::Events(events) = reader.next().await? {
        let now = Instant::now();
        got.extend(events.iter().map(|it| (it.seq, now)));
    }
    Ok((id, got))
}

/// The most memory this process had, as the kernel says.
fn peak_memory() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|it| it.strip_prefix("VmHWM:"));
    line.map_or_else(|| "unknown".to_owned(), |it| it.trim().to_owned())
}
