//! Tests of the event streams of a service over HTTP.

use std::time::Duration;

use axum::{Router, body::Body, http::Request};
use futures_util::StreamExt as _;
use graph_server::http::{Guard, Metrics};
use reqwest::Method;
use serde_json::json;
use tokio::time::Instant;
use tower::ServiceExt as _;

use crate::{
    app,
    service::Counter,
    web::{Server, parse_events},
};

const EVENTS: &str = "/runs/a/events";

/// Starts a server with a run that counts to 3. The first `allowed` events are sent.
async fn server(allowed: usize) -> Server {
    let metrics = Metrics::default();
    let (service, locked) = app::open(Counter::new(allowed), 9, metrics.clone()).await;
    let server = Server::start(Guard::new().wrap(Router::new(), locked, metrics), service).await;
    assert_eq!(server.post("/runs", &json!({ "to": 3 })).await.0, 202);
    server
}

#[tokio::test]
async fn last_event_id_takes_precedence_over_the_query() {
    let server = server(3).await;
    let numbers = async |path: &str, seen: u64| -> Vec<u64> {
        let (events, end) = server.events(path, seen).await;
        assert_eq!(end.as_deref(), Some("complete"));
        events.iter().map(|it| it.0).collect()
    };
    assert_eq!(numbers(EVENTS, 0).await, [1, 2, 3]);
    // When browsers reconnect, they use the same URL, so `Last-Event-ID` must take precedence over `after`.
    let after = format!("{EVENTS}?after=1");
    assert_eq!(numbers(&after, 2).await, [3]);
    let asked = server.request(Method::GET, &after).send().await.unwrap();
    assert!(asked.text().await.unwrap().starts_with("id: 2\n"));
    for (path, seen) in [(EVENTS, "soup"), ("/runs/a/events?after=-1", "0")] {
        let wrong = server.request(Method::GET, path).header("last-event-id", seen);
        assert_eq!(wrong.send().await.unwrap().status().as_u16(), 422, "{path} {seen}");
    }
    assert_eq!(server.get("/runs/missing/events").await.0, 404);
    server.stop().await;
}

#[tokio::test]
async fn the_stream_of_an_unfinished_run_ends_without_a_status_when_the_server_stops() {
    let server = server(2).await;
    let mut stream = server.request(Method::GET, EVENTS).send().await.unwrap();
    let mut text = String::new();
    // If the run starts late, the first message is a keep-alive message.
    while !text.contains("id: 1\n") {
        let chunk = stream.chunk().await.unwrap().unwrap();
        text.push_str(&String::from_utf8_lossy(&chunk));
    }
    server.end();
    while let Some(chunk) = stream.chunk().await.unwrap() {
        text.push_str(&String::from_utf8_lossy(&chunk));
    }
    let (seen, end) = parse_events(&text);
    assert_eq!((seen[0].0, end), (1, None));
    server.stop().await;
}

/// Time is paused, so the runtime advances it to the next timer whenever all tasks are idle. The requests do not use a
/// network, because time would also advance while bytes are in flight.
#[tokio::test(start_paused = true)]
async fn idle_streams_send_keep_alive_messages() {
    let (_service, routes) = app::open(Counter::new(0), 9, Metrics::default()).await;
    let start = Request::post("/runs").header("content-type", "application/json");
    let start = start.body(Body::from(json!({ "to": 3 }).to_string())).unwrap();
    assert_eq!(routes.clone().oneshot(start).await.unwrap().status(), 202);
    let open = Request::get(EVENTS).body(Body::empty()).unwrap();
    let mut stream = routes.oneshot(open).await.unwrap().into_body().into_data_stream();
    let (mut beats, begun) = (0, Instant::now());
    while beats < 3 {
        let chunk = stream.next().await.unwrap().unwrap();
        beats += String::from_utf8_lossy(&chunk).matches(": beat").count();
    }
    let waited = begun.elapsed();
    assert!((Duration::from_secs(10)..Duration::from_secs(25)).contains(&waited), "{waited:?}");
}
