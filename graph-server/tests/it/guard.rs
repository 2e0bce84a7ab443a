//! Who may ask, and how much.

use std::sync::Arc;

use axum::{Router, http::HeaderValue, routing::post};
use graph_core::{MemorySaver, START, State, StateGraph};
use graph_server::{
    Capacity, Registry, Service,
    graph::{Graphs, routes},
    http::{Asset, Guard, KeyHash, Metrics, page},
};
use reqwest::Method;
use serde_json::json;

use crate::web::Server;

#[derive(State, Clone, Debug, Default)]
struct Nothing {
    note: String,
}

async fn idle(_: &Nothing) {
    std::future::pending::<()>().await;
}

async fn server(guard: Guard, streams: usize) -> Server {
    let graph = StateGraph::<Nothing>::new().node(idle).edge(START, idle);
    let graph = graph.checkpointer(MemorySaver::new()).compile().unwrap();
    let registry = Registry::in_memory().unwrap();
    let graphs = Graphs::new(registry.clone()).add("idle", graph, || ());
    let service =
        Service::open(registry, Arc::new(graphs.clone()), Capacity::default()).await.unwrap();
    let metrics = Metrics::default();
    let (locked, _) = routes(graphs, service.clone(), streams, metrics.clone());
    let open = Router::new().route("/echo", post(|body: String| async { body })).merge(page(file));
    Server::start(guard.around(open, locked, metrics), service).await
}

fn file(name: &str) -> Option<Asset> {
    match name {
        "index.html" => Some(b"<!doctype html>"[..].into()),
        "assets/x-1.js" => Some(b"1"[..].into()),
        _ => None,
    }
}

#[tokio::test]
async fn a_key_opens_and_nothing_else_does() {
    let server = server(Guard::new().key(KeyHash::of("right")), 9).await;
    let ask = async |header: &str, value: &str| {
        let request = server.ask(Method::GET, "/graphs").header(header, value);
        request.send().await.unwrap().status().as_u16()
    };
    assert_eq!(server.get("/graphs").await.0, 401);
    assert_eq!(ask("authorization", "Bearer wrong").await, 401);
    assert_eq!(ask("authorization", "Bearer right").await, 200);
    assert_eq!(ask("x-api-key", "right").await, 200);
    // The page asks for the key, so it is open.
    assert_eq!(server.get("/").await.0, 200);
}

#[tokio::test]
async fn strange_hosts_and_sites_are_refused() {
    let guard = Guard::new().origin(HeaderValue::from_static("https://friend.example"));
    let server = server(guard, 9).await;
    let ask = async |method: Method, host: Option<&str>, origin: &str| {
        let mut request = server.ask(method, "/graphs/idle/runs").header("origin", origin);
        if let Some(host) = host {
            request = request.header("host", host);
        }
        let request = request.header("content-type", "application/json").body("{}");
        let response = request.send().await.unwrap();
        let allowed = response.headers().get("access-control-allow-origin").cloned();
        (response.status().as_u16(), allowed)
    };
    assert_eq!(ask(Method::POST, Some("evil.example"), "http://evil.example").await.0, 403);
    assert_eq!(ask(Method::POST, None, "https://evil.example").await, (403, None));
    let (status, allowed) = ask(Method::POST, None, "https://friend.example").await;
    assert_eq!((status, allowed.unwrap().to_str().unwrap()), (202, "https://friend.example"));
    // What a page of another site can send without asking is no JSON.
    let plain = server.ask(Method::POST, "/graphs/idle/runs").body("{}").send().await.unwrap();
    assert_eq!(plain.status().as_u16(), 415);
}

#[tokio::test]
async fn bodies_requests_and_streams_are_bounded() {
    let server = server(Guard::new().body(100).rate(8), 1).await;
    let large = server.ask(Method::POST, "/echo").body("x".repeat(101)).send().await.unwrap();
    assert_eq!(large.status().as_u16(), 413);
    let (_, run) = server.post("/graphs/idle/runs", &json!({})).await;
    let path = format!("/runs/{}/events", run["id"].as_str().unwrap());
    let open = server.ask(Method::GET, &path).send().await.unwrap();
    assert_eq!(open.headers()["cache-control"], "no-store");
    let second = server.ask(Method::GET, &path).send().await.unwrap();
    assert_eq!(
        (second.status().as_u16(), &second.headers()["retry-after"]),
        (429, &"5".parse().unwrap())
    );
    drop(open);
    // It is free again as soon as the server has noticed.
    let mut answered = Vec::new();
    for _ in 0..6 {
        answered.push(server.get("/graphs").await.0);
    }
    assert_eq!(answered.iter().filter(|it| **it == 429).count(), 2, "{answered:?}");
    server.stop().await;
}

#[tokio::test]
async fn the_page_runs_nothing_of_others_and_its_files_are_kept() {
    let server = server(Guard::new(), 9).await;
    let page = server.ask(Method::GET, "/runs-of/anything").send().await.unwrap();
    assert_eq!(page.status().as_u16(), 200);
    let policy = page.headers()["content-security-policy"].to_str().unwrap().to_owned();
    assert!(policy.contains("script-src 'self';") && policy.contains("default-src 'none'"));
    assert!(page.headers().contains_key("x-request-id"));
    let asset = server.ask(Method::GET, "/assets/x-1.js").send().await.unwrap();
    assert!(asset.headers()["cache-control"].to_str().unwrap().contains("immutable"));
    assert_eq!(server.get("/assets/x-2.js").await.0, 404);
    let (status, body) = server.get("/api/nothing").await;
    assert_eq!((status, &body["error"]["code"]), (404, &json!("not_found")));
}
