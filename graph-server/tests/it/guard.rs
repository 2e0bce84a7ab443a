//! Tests of access control and request limits.

use std::{net::Ipv4Addr, time::Duration};

use axum::{
    Router,
    http::HeaderValue,
    routing::{get, post},
};
use graph_server::{
    Service,
    http::{Asset, Guard, Guarded, KeyHash, Metrics, page},
};
use reqwest::Method;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::{Instant, sleep, timeout},
};

use crate::{app, service::Counter, web::Server};

/// Path of the event stream of the run that [`start_idle_run`] starts.
const EVENTS: &str = "/runs/a/events";

async fn server(guard: Guard, streams: usize) -> Server {
    let (guarded, service) = routes_of(guard, streams).await;
    Server::start(guarded, service).await
}

async fn routes_of(guard: Guard, streams: usize) -> (Guarded, Service) {
    let metrics = Metrics::default();
    let (service, locked) = app::open(Counter::new(0), streams, metrics.clone()).await;
    let open = Router::new()
        .route("/echo", post(|body: String| async { body }))
        .route("/health", get(async || "ok"))
        .merge(page(file));
    (guard.wrap(open, locked, metrics), service)
}

/// Starts a run that does not end and has no events.
async fn start_idle_run(server: &Server) {
    assert_eq!(server.post("/runs", &json!({ "to": 1 })).await.0, 202);
}

/// Size of a large response in bytes. It exceeds the socket buffers, so the response cannot be sent completely to a
/// client that does not read.
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
async fn locked_routes_require_the_key() {
    let server = server(Guard::new().key(KeyHash::of("right")), 9).await;
    let ask = async |header: &str, value: &str| {
        let request = server.request(Method::GET, "/runs").header(header, value);
        request.send().await.unwrap().status().as_u16()
    };
    assert_eq!(server.get("/runs").await.0, 401);
    assert_eq!(ask("authorization", "Bearer wrong").await, 401);
    assert_eq!(ask("authorization", "Bearer right").await, 200);
    assert_eq!(ask("x-api-key", "right").await, 200);
    // The page is accessible without an API key, because it asks the user for the key.
    assert_eq!(server.get("/").await.0, 200);
}

#[tokio::test]
async fn public_addresses_are_not_served_without_a_key() {
    let (guarded, service) = routes_of(Guard::new(), 9).await;
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let end = std::future::pending();
    let served = graph_server::serve(listener, guarded, service, Duration::ZERO, end).await;
    assert!(served.unwrap_err().to_string().contains("requires credentials"));
}

/// Time is paused, so the runtime advances it to the next timer whenever all tasks are idle.
#[tokio::test(start_paused = true)]
async fn incomplete_request_headers_time_out() {
    let server = server(Guard::new(), 9).await;
    let begun = Instant::now();
    let mut slow = TcpStream::connect(server.address).await.unwrap();
    slow.write_all(b"GET /runs HTTP/1.1\r\nhost: localhost\r\nx-more: ").await.unwrap();
    let mut said = String::new();
    // Reading fails if the server resets the connection.
    let _ = slow.read_to_string(&mut said).await;
    assert!(!said.contains("200 OK"), "{said}");
    let waited = begun.elapsed();
    assert!((Duration::from_secs(10)..Duration::from_secs(30)).contains(&waited), "{waited:?}");
}

#[tokio::test]
async fn unread_responses_time_out() {
    const ASKED: usize = 12;
    let server = server(Guard::new(), 9).await;
    let mut deaf = TcpStream::connect(server.address).await.unwrap();
    let request = b"GET /assets/large.js HTTP/1.1\r\nhost: localhost\r\n\r\n";
    deaf.write_all(&request.repeat(ASKED)).await.unwrap();
    let mut begun = [0; 15];
    deaf.read_exact(&mut begun).await.unwrap();
    assert_eq!(&begun, b"HTTP/1.1 200 OK");
    // From now on, the runtime advances the time to the next timer whenever all tasks are idle. If the time were paused
    // from the start, the response could time out while its first bytes are in flight.
    tokio::time::pause();
    sleep(Duration::from_secs(90)).await;
    let mut taken = Vec::new();
    // Only bytes that were already in the buffers can arrive. The connection may be reset before they are read.
    let _ = deaf.read_to_end(&mut taken).await;
    assert!(taken.len() < ASKED * LARGE, "{}", taken.len());
}

#[tokio::test]
async fn cors_headers_name_the_allowed_origins_methods_and_headers() {
    let guard = Guard::new().key(KeyHash::of("right"));
    let server = server(guard.origin(HeaderValue::from_static("https://friend.example")), 9).await;
    let ask = async |origin: &str| {
        let request = server.request(Method::OPTIONS, "/runs").header("origin", origin);
        let request = request.header("access-control-request-method", "POST");
        let wanted = "content-type,authorization,x-api-key,last-event-id,mcp-protocol-version";
        request.header("access-control-request-headers", wanted).send().await.unwrap()
    };
    let friend = ask("https://friend.example").await;
    assert_eq!(friend.status().as_u16(), 200, "preflight requests carry no key");
    let said = |name: &str| friend.headers()[name].to_str().unwrap().to_ascii_lowercase();
    assert_eq!(said("access-control-allow-origin"), "https://friend.example");
    assert!(said("access-control-allow-methods").contains("post"));
    let names =
        ["content-type", "authorization", "x-api-key", "last-event-id", "mcp-protocol-version"];
    for name in names {
        assert!(said("access-control-allow-headers").contains(name), "{name}");
    }
    let stranger = ask("https://evil.example").await;
    assert!(!stranger.headers().contains_key("access-control-allow-origin"));
    // Web pages from allowed origins can read error responses.
    let rejected = server.request(Method::GET, "/runs").header("origin", "https://friend.example");
    let rejected = rejected.send().await.unwrap();
    assert_eq!(rejected.status().as_u16(), 401);
    assert_eq!(rejected.headers()["access-control-allow-origin"], "https://friend.example");
}

#[tokio::test]
async fn requests_of_unknown_hosts_and_origins_are_rejected() {
    let guard = Guard::new().origin(HeaderValue::from_static("https://friend.example"));
    let server = server(guard, 9).await;
    let ask = async |method: Method, host: Option<&str>, origin: &str| {
        let mut request = server.request(method, "/runs").header("origin", origin);
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
    // Without a preflight request, a web page of another site can send only bodies whose content type is not JSON. The
    // server rejects them.
    let plain = server.request(Method::POST, "/runs").body("{}").send().await.unwrap();
    assert_eq!(plain.status().as_u16(), 415);
}

#[tokio::test]
async fn body_size_and_request_rate_are_limited() {
    let server = server(Guard::new().max_body(100).rate_limit(5), 1).await;
    let large = server.request(Method::POST, "/echo").body("x".repeat(101)).send().await.unwrap();
    assert_eq!(large.status().as_u16(), 413);
    for _ in 0..4 {
        assert_eq!(server.get("/runs").await.0, 200);
    }
    // The allowance grows with time, so a slow client may send more requests.
    while server.get("/runs").await.0 != 429 {}
    server.stop().await;
}

#[tokio::test]
async fn the_number_of_streams_is_limited_and_closed_streams_free_a_slot() {
    let server = server(Guard::new(), 1).await;
    start_idle_run(&server).await;
    let open = server.request(Method::GET, EVENTS).send().await.unwrap();
    assert_eq!(open.headers()["cache-control"], "no-store");
    assert_eq!(open.headers()["x-accel-buffering"], "no", "prevents buffering by proxies");
    let second = server.request(Method::GET, EVENTS).send().await.unwrap();
    assert_eq!(
        (second.status().as_u16(), &second.headers()["retry-after"]),
        (429, &"5".parse().unwrap())
    );
    drop(open);
    // The slot becomes free as soon as the server notices that the client has disconnected.
    let free = async {
        while server.request(Method::GET, EVENTS).send().await.unwrap().status().as_u16() != 200 {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(Duration::from_secs(120), free).await.expect("the slot is free again");
    server.stop().await;
}

/// Without fair sharing, one client could take all streams, and pages of other clients would show nothing.
#[tokio::test]
async fn a_client_with_all_streams_does_not_lock_out_others() {
    let server = server(Guard::new(), 3).await;
    start_idle_run(&server).await;
    let oldest = server.request(Method::GET, EVENTS).send().await.unwrap();
    let mut others = vec![];
    for _ in 0..2 {
        others.push(server.request(Method::GET, EVENTS).send().await.unwrap());
    }
    let address = Ipv4Addr::new(127, 0, 0, 2);
    let light = server.request_from(address, Method::GET, EVENTS).send().await.unwrap();
    assert_eq!(light.status().as_u16(), 200);
    let ended = timeout(Duration::from_secs(120), oldest.text()).await;
    ended.expect("the oldest stream ends").unwrap();
    assert_eq!(server.request(Method::GET, EVENTS).send().await.unwrap().status().as_u16(), 429);
    server.stop().await;
}

#[tokio::test]
async fn the_page_has_a_content_security_policy_and_cached_assets() {
    let server = server(Guard::new(), 9).await;
    let page = server.request(Method::GET, "/runs-of/anything").send().await.unwrap();
    assert_eq!(page.status().as_u16(), 200);
    let policy = page.headers()["content-security-policy"].to_str().unwrap().to_owned();
    assert!(policy.contains("script-src 'self';") && policy.contains("default-src 'none'"));
    assert!(page.headers().contains_key("x-request-id"));
    let asset = server.request(Method::GET, "/assets/x-1.js").send().await.unwrap();
    assert!(asset.headers()["cache-control"].to_str().unwrap().contains("immutable"));
    assert_eq!(server.get("/assets/x-2.js").await.0, 404);
    for path in ["/api", "/api/nothing"] {
        let (status, body) = server.get(path).await;
        assert_eq!((status, &body["error"]["code"]), (404, &json!("not_found")), "{path}");
    }
    let other = server.request(Method::DELETE, "/runs").send().await.unwrap();
    assert_eq!(
        (other.status().as_u16(), &other.headers()["allow"]),
        (405, &"GET,HEAD,POST".parse().unwrap())
    );
    assert!(other.text().await.unwrap().contains("method"));
}

/// Opens a connection and sends one request. Returns the connection and the status of the response.
async fn open(server: &Server, path: &str) -> (TcpStream, String) {
    let mut connection = TcpStream::connect(server.address).await.unwrap();
    let status = ask(&mut connection, path).await;
    (connection, status.expect("the server answers a new connection"))
}

/// Sends a request on an open connection. Returns the status of the response, or `None` if the server has closed the
/// connection.
async fn ask(connection: &mut TcpStream, path: &str) -> Option<String> {
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    connection.write_all(request.as_bytes()).await.ok()?;
    let mut head = [0; 12];
    connection.read_exact(&mut head).await.ok()?;
    Some(String::from_utf8_lossy(&head[9..]).into_owned())
}

#[tokio::test]
async fn idle_connections_do_not_lock_out_new_ones() {
    const LIMIT: usize = 4;
    let server = server(Guard::new().connection_limit(LIMIT), 9).await;
    let mut idle = Vec::new();
    for _ in 0..5 * LIMIT {
        let (connection, status) = open(&server, "/runs").await;
        assert_eq!(status, "200");
        idle.push(connection);
    }
    let mut n_open = 0;
    for mut connection in idle {
        // A connection that the server has closed returns no response to this second request.
        connection
            .write_all(b"GET /runs HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            .await
            .ok();
        let mut rest = String::new();
        let _ = connection.read_to_string(&mut rest).await;
        n_open += usize::from(rest.contains("200 OK"));
    }
    assert_eq!(n_open, LIMIT);
    server.stop().await;
}

#[tokio::test]
async fn health_probes_are_answered_while_a_client_holds_all_its_connections() {
    const LIMIT: usize = 3;
    let server = server(Guard::new().connection_limit(LIMIT), 9).await;
    start_idle_run(&server).await;
    let mut streams = Vec::new();
    for _ in 0..LIMIT {
        let (stream, status) = open(&server, EVENTS).await;
        assert_eq!(status, "200");
        streams.push(stream);
    }
    // Connections that send nothing do not use up the reserved slots.
    for _ in 0..200 {
        streams.push(TcpStream::connect(server.address).await.unwrap());
    }
    assert_eq!(open(&server, "/health").await.1, "200");
    assert_eq!(open(&server, "/runs").await.1, "503");
    server.stop().await;
}

#[tokio::test]
async fn health_probes_have_a_separate_rate_limit() {
    let server = server(Guard::new().rate_limit(2), 9).await;
    for _ in 0..2 {
        assert_eq!(server.get("/runs").await.0, 200);
    }
    // The allowance grows with time, so a slow client may send more requests.
    while server.get("/runs").await.0 != 429 {}
    assert_eq!(server.get("/health").await.0, 200);
    server.stop().await;
}
