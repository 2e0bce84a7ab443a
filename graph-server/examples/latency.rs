//! Measures a server of LangGraph's API: the time until the first event of a run, and the number of runs per second.
//!
//! ```text
//! cargo run --release -p graph-server --example latency
//! ```
#![expect(clippy::print_stdout, reason = "prints its results")]

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{StreamExt, stream};
use graph_core::{START, State, StateGraph};
use graph_server::{
    http::Guard,
    langgraph::{Graphs, LangGraphApi, Schemas},
    serve_until,
};
use graph_store::{Sqlite, SqliteSaver, SqliteStore, sqlite::Synchronous};
use reqwest::Client;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::net::TcpListener;

/// Number of runs whose first event is measured.
const STREAMS: usize = 200;
/// Number of runs that are executed to measure the throughput.
const RUNS: usize = 1000;
/// Number of these runs that execute at the same time.
const CONCURRENT: usize = 20;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Word {
    value: String,
}

async fn first(word: &Word) -> WordUpdate {
    Word::update().value(format!("{}a", word.value))
}

async fn second(word: &Word) -> WordUpdate {
    Word::update().value(format!("{}b", word.value))
}

#[tokio::main]
async fn main() -> Result<()> {
    let files = tempfile::tempdir()?;
    let settings = Sqlite::settings().synchronous(Synchronous::Normal);
    let database = settings.open(files.path().join("threads.db"))?;
    let saver = Arc::new(SqliteSaver::new(&database));
    let store = Arc::new(SqliteStore::new(&database));
    let graph =
        StateGraph::<Word>::new().node(first).node(second).edge(START, first).edge(first, second);
    let graphs = Graphs::new(saver, store).add("word", graph, Schemas::default())?;
    let api = LangGraphApi::open(graphs, files.path().join("api.db")).await?;
    let guard = Guard::new().rate_limit(u32::MAX);
    let guarded = guard.wrap(api.open_routes(), api.routes(), api.metrics());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move { serve_until(listener, guarded, std::future::pending()).await });
    // The client requires a TLS provider, although it uses plain HTTP.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Client::builder().no_proxy().build()?;

    let mut times = Vec::new();
    for _ in 0..STREAMS {
        times.push(time_to_first_event(&client, &url).await?);
    }
    times.sort();
    let ms = |it: Duration| it.as_secs_f64() * 1000.0;
    let (median, high) = (times[STREAMS / 2], times[STREAMS * 99 / 100]);
    println!("time to first event   median {:.2} ms, 99 % {:.2} ms", ms(median), ms(high));

    let started = Instant::now();
    let runs = stream::iter(0..RUNS).map(|_| wait_for_run(&client, &url));
    let mut runs = runs.buffer_unordered(CONCURRENT);
    while let Some(done) = runs.next().await {
        done?;
    }
    let rate = RUNS as f64 / started.elapsed().as_secs_f64();
    println!("runs per second       {rate:.0} ({RUNS} runs, {CONCURRENT} at a time)");
    Ok(())
}

/// Starts a run and returns the time until its first event arrived.
async fn time_to_first_event(client: &Client, url: &str) -> Result<Duration> {
    let started = Instant::now();
    let mut response = post(client, format!("{url}/runs/stream")).await?;
    let first = response.chunk().await?;
    let time = started.elapsed();
    let first = String::from_utf8(first.unwrap_or_default().to_vec())?;
    if !first.starts_with("event: metadata") {
        return Err(format!("unexpected first event: {first}").into());
    }
    while response.chunk().await?.is_some() {}
    Ok(time)
}

async fn wait_for_run(client: &Client, url: &str) -> Result<()> {
    let text = post(client, format!("{url}/runs/wait")).await?.text().await?;
    if text.contains("xab") { Ok(()) } else { Err(format!("unexpected output: {text}").into()) }
}

async fn post(client: &Client, url: String) -> reqwest::Result<reqwest::Response> {
    let body = json!({ "assistant_id": "word", "input": { "value": "x" } });
    let request = client.post(url).header("content-type", "application/json");
    request.body(body.to_string()).send().await?.error_for_status()
}
