//! Every request: its id, its line in the log, its counts.

use std::time::Instant;

use axum::{
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderValue, Method},
    middleware::Next,
    response::Response,
};
use tracing::Instrument;

use super::Metrics;

const HEADER: &str = "x-request-id";

/// Gives a request an id, or keeps the one it came with, and notes how it was answered.
pub(super) async fn note(State(metrics): State<Metrics>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = id(request.headers());
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().map(|it| it.as_str().to_owned());
    // Whatever has no route is the page's, or nothing: its paths are without end.
    let route = route.unwrap_or_else(|| "other".to_owned());
    let span = tracing::info_span!("request", id, %method, route);
    let mut response = next.run(request).instrument(span.clone()).await;
    let (status, took) = (response.status().as_u16(), started.elapsed());
    metrics.count(known(&method), &route, status, took);
    span.in_scope(|| tracing::info!(status, ms = took.as_millis() as u64, "answered"));
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(HEADER, id);
    }
    response
}

/// A method's name; words that somebody made up are without end.
fn known(method: &Method) -> &'static str {
    let known = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    known.into_iter().find(|it| *it == method.as_str()).unwrap_or("other")
}

/// An id that a client or a proxy gave, if it is harmless in a log, or a new one.
fn id(headers: &HeaderMap) -> String {
    let given = headers.get(HEADER).and_then(|it| it.to_str().ok());
    if let Some(given) = given.filter(|it| crate::run::is_id(it)) {
        return given.to_owned();
    }
    let mut bytes = [0; 8];
    // It only has to differ from others; without chance the log is less handy, no more.
    let _ = getrandom::fill(&mut bytes);
    bytes.iter().map(|it| format!("{it:02x}")).collect()
}
