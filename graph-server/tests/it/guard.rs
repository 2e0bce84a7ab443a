//! Who may ask, and how much.

use std::{sync::Arc, time::Duration};

use axum::{Router, http::HeaderValue, routing::post};
use graph_core::{MemorySaver, START, State, StateGraph};
use graph_server::{
    Capacity, Registry, Service,
    graph::{Graphs, routes},
    http::{Asset, Guard, Guarded, KeyHash, Metrics, page},
};
use reqwest::Method;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::{Instant, sleep, timeout},
};

use crate::web::Server;

#[derive(State, Clone, Debug, Default)]
struct Nothing {
    note: String,
}

async fn idle(_: &Nothing) {
    std::future::pending::<()>().await;
}

async fn server(guard: Guard, streams: usize) -> Server {
    let (guarded, service) = routes_of(guard, streams).await;
    Server::start(guarded, service).await
}

async fn routes_of(guard: Guard, streams: usize) -> (Guarded, Service) {
    let graph = StateGraph::<Nothing>::new().node(idle).edge(START, idle);
    let graph = graph.checkpointer(MemorySaver::new()).compile().unwrap();
    let registry = Registry::in_memory().unwrap();
    let graphs = Graphs::new(registry.clone()).add("idle", graph, || ());
    let service =
        Service::open(registry, Arc::new(graphs.clone()), Capacity::default()).await.unwrap();
    let metrics = Metrics::default();
    let (locked, _) = routes(graphs, service.clone(), streams, metrics.clone());
    let open = Router::new().route("/echo", post(|body: String| async { body })).merge(page(file));
    (guard.around(open, locked, metrics), service)
}

/// More than fits on the way to a client that does not read.
const LARGE: usize = 4 << 20;

fn file(name: &str) -> Option<Asset> {
    match name {
        "index.html" => Some(b"<!doctype html>"[..].into()),
        "assets/x-1.js" => Some(b"1"[..].into()),
        "assets/large.js" => Some(vec![b'1'; LARGE].into()),
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
async fn an_open_address_is_not_served_without_a_key() {
    let (guarded, service) = routes_of(Guard::new(), 9).await;
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let end = std::future::pending();
    let served = graph_server::serve(listener, guarded, service, Duration::ZERO, end).await;
    assert!(served.unwrap_err().to_string().contains("needs a key"));
}

/// Time is passed by the runtime whenever nothing else is to be done.
#[tokio::test(start_paused = true)]
async fn a_head_that_never_ends_is_not_waited_for() {
    let server = server(Guard::new(), 9).await;
    let begun = Instant::now();
    let mut slow = TcpStream::connect(server.address).await.unwrap();
    slow.write_all(b"GET /graphs HTTP/1.1\r\nhost: localhost\r\nx-more: ").await.unwrap();
    let mut said = String::new();
    slow.read_to_string(&mut said).await.unwrap();
    assert!(!said.contains("200 OK"), "{said}");
    let waited = begun.elapsed();
    assert!((Duration::from_secs(10)..Duration::from_secs(30)).contains(&waited), "{waited:?}");
}

/// Time is passed by the runtime whenever nothing else is to be done.
#[tokio::test(start_paused = true)]
async fn an_answer_that_nobody_reads_does_not_keep_its_place() {
    const ASKED: usize = 12;
    let server = server(Guard::new(), 9).await;
    let mut deaf = TcpStream::connect(server.address).await.unwrap();
    let request = b"GET /assets/large.js HTTP/1.1\r\nhost: localhost\r\n\r\n";
    deaf.write_all(&request.repeat(ASKED)).await.unwrap();
    let mut begun = [0; 15];
    deaf.read_exact(&mut begun).await.unwrap();
    assert_eq!(&begun, b"HTTP/1.1 200 OK");
    sleep(Duration::from_secs(90)).await;
    let mut taken = Vec::new();
    // What was on its way is all that comes; the connection may be reset before that is read.
    let _ = deaf.read_to_end(&mut taken).await;
    assert!(taken.len() < ASKED * LARGE, "{}", taken.len());
}

#[tokio::test]
async fn a_browser_is_told_which_sites_may_ask_and_how() {
    let guard = Guard::new().key(KeyHash::of("right"));
    let server = server(guard.origin(HeaderValue::from_static("https://friend.example")), 9).await;
    let ask = async |origin: &str| {
        let request = server.ask(Method::OPTIONS, "/graphs/idle/runs").header("origin", origin);
        let request = request.header("access-control-request-method", "POST");
        let wanted = "content-type,authorization,x-api-key,last-event-id";
        request.header("access-control-request-headers", wanted).send().await.unwrap()
    };
    let friend = ask("https://friend.example").await;
    assert_eq!(friend.status().as_u16(), 200, "a browser shows no key when it asks for leave");
    let said = |name: &str| friend.headers()[name].to_str().unwrap().to_ascii_lowercase();
    assert_eq!(said("access-control-allow-origin"), "https://friend.example");
    assert!(said("access-control-allow-methods").contains("post"));
    for name in ["content-type", "authorization", "x-api-key", "last-event-id"] {
        assert!(said("access-control-allow-headers").contains(name), "{name}");
    }
    let stranger = ask("https://evil.example").await;
    assert!(!stranger.headers().contains_key("access-control-allow-origin"));
    // What went wrong can be read by pages that may ask.
    let refused = server.ask(Method::GET, "/graphs").header("origin", "https://friend.example");
    let refused = refused.send().await.unwrap();
    assert_eq!(refused.status().as_u16(), 401);
    assert_eq!(refused.headers()["access-control-allow-origin"], "https://friend.example");
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
async fn bodies_and_requests_are_bounded() {
    let server = server(Guard::new().body(100).rate(5), 1).await;
    let large = server.ask(Method::POST, "/echo").body("x".repeat(101)).send().await.unwrap();
    assert_eq!(large.status().as_u16(), 413);
    let mut answered = Vec::new();
    for _ in 0..6 {
        answered.push(server.get("/graphs").await.0);
    }
    assert_eq!(answered.iter().filter(|it| **it == 429).count(), 2, "{answered:?}");
    server.stop().await;
}

#[tokio::test]
async fn streams_are_bounded_and_a_place_is_given_back() {
    let server = server(Guard::new(), 1).await;
    let (_, run) = server.post("/graphs/idle/runs", &json!({})).await;
    let path = format!("/runs/{}/events", run["id"].as_str().unwrap());
    let open = server.ask(Method::GET, &path).send().await.unwrap();
    assert_eq!(open.headers()["cache-control"], "no-store");
    assert_eq!(open.headers()["x-accel-buffering"], "no", "or a proxy collects events");
    let second = server.ask(Method::GET, &path).send().await.unwrap();
    assert_eq!(
        (second.status().as_u16(), &second.headers()["retry-after"]),
        (429, &"5".parse().unwrap())
    );
    drop(open);
    // As soon as the server has noticed.
    let free = async {
        while server.ask(Method::GET, &path).send().await.unwrap().status().as_u16() != 200 {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(Duration::from_secs(20), free).await.expect("its place is free again");
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
    for path in ["/api", "/api/nothing"] {
        let (status, body) = server.get(path).await;
        assert_eq!((status, &body["error"]["code"]), (404, &json!("not_found")), "{path}");
    }
    let other = server.ask(Method::DELETE, "/graphs").send().await.unwrap();
    assert_eq!(
        (other.status().as_u16(), &other.headers()["allow"]),
        (405, &"GET,HEAD".parse().unwrap())
    );
    assert!(other.text().await.unwrap().contains("method"));
}
