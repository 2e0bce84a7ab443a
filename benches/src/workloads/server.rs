//! Runs on a server over loopback HTTP: sequential runs, concurrent runs, and the time to the first event.

use graph_core::{START, State, StateGraph};
use graph_server::{
    http::Guard,
    langgraph::{Graphs, LangGraphApi, Schemas},
    serve_until,
};
use reqwest::Client;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::{
    data,
    protocol::{Job, concurrent, job, runtime},
};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Count {
    count: u64,
}

async fn tick(count: &Count) -> CountUpdate {
    Count::update().count(count.count + 1)
}

pub(super) fn prepare(workload: &str, size: usize) -> Option<Job> {
    match workload {
        "server" => Some(round_trips(size)),
        "server-concurrent" => Some(runs_at_once(size)),
        "server-first-event" => Some(first_events(size)),
        _ => None,
    }
}

/// Starts a server, and returns a client and the address of the server.
fn connect() -> (Client, String) {
    // The client requires a TLS provider, although it uses plain HTTP.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Client::builder().no_proxy().build().expect("a client can be created");
    (client, runtime().block_on(start()))
}

fn runs_at_once(count: usize) -> Job {
    let (client, url) = connect();
    concurrent(count, move || {
        let (client, url) = (client.clone(), url.clone());
        async move { round_trip(&client, &url).await.expect("the server answers") }
    })
}

fn first_events(count: usize) -> Job {
    let (client, url) = connect();
    job(move || {
        let (client, url) = (client.clone(), url.clone());
        async move {
            let mut found = 0;
            for _ in 0..count {
                let event = first_event(&client, &url).await.expect("the server answers");
                found += usize::from(event == "event: metadata");
            }
            found.to_string()
        }
    })
}

fn round_trips(count: usize) -> Job {
    let (client, url) = connect();
    job(move || {
        let (client, url) = (client.clone(), url.clone());
        async move {
            let mut sum = 0;
            for _ in 0..count {
                sum += round_trip(&client, &url).await.expect("the server answers");
            }
            sum.to_string()
        }
    })
}

/// Starts a server that runs until the program ends, and returns its address.
async fn start() -> String {
    let graph = StateGraph::<Count>::new().node(tick).edge(START, tick);
    let graphs = Graphs::in_memory().add("count", graph, Schemas::default());
    let graphs = graphs.expect("the graph is valid");
    let api = LangGraphApi::open(graphs, data::database_path()).await;
    let api = api.expect("the file can be created");
    let guard = Guard::new().rate_limit(u32::MAX);
    let routes = guard.wrap(api.open_routes(), api.routes(), api.metrics());
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let url = format!("http://{}", listener.local_addr().expect("the port is bound"));
    tokio::spawn(async move { serve_until(listener, routes, std::future::pending()).await });
    url
}

/// Creates a thread, runs the graph on it and waits for the result.
async fn round_trip(client: &Client, url: &str) -> reqwest::Result<usize> {
    let thread = post(client, format!("{url}/threads"), json!({})).await?;
    let id = thread["thread_id"].as_str().unwrap_or_default();
    let run = json!({"assistant_id": "count", "input": {"count": 0}});
    let state = post(client, format!("{url}/threads/{id}/runs/wait"), run).await?;
    Ok(state["count"].as_u64().unwrap_or_default() as usize)
}

/// Starts a run and returns the first line of its events. Does not wait for the end of the run.
async fn first_event(client: &Client, url: &str) -> reqwest::Result<String> {
    let run = json!({"assistant_id": "count", "input": {"count": 0}});
    let request =
        client.post(format!("{url}/runs/stream")).header("content-type", "application/json");
    let mut response = request.body(run.to_string()).send().await?.error_for_status()?;
    let mut text = String::new();
    while let Some(chunk) = response.chunk().await? {
        text.push_str(&String::from_utf8_lossy(&chunk));
        if text.contains('\n') {
            break;
        }
    }
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

async fn post(client: &Client, url: String, body: Value) -> reqwest::Result<Value> {
    let request = client.post(url).header("content-type", "application/json");
    let response = request.body(body.to_string()).send().await?.error_for_status()?;
    Ok(serde_json::from_slice(&response.bytes().await?).unwrap_or_default())
}
