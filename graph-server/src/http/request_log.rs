//! Assigns request ids, logs requests and counts them.

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

/// Assigns an id to the request, or keeps the id that it already has. Logs and counts the response.
pub(super) async fn log_request(
    State(metrics): State<Metrics>,
    request: Request,
    next: Next,
) -> Response {
    let started = Instant::now();
    let id = request_id(request.headers());
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().map(|it| it.as_str().to_owned());
    // Paths without a route share one label, so that the number of label values is bounded.
    let route = route.unwrap_or_else(|| "other".to_owned());
    let span = tracing::info_span!("request", id, %method, route);
    let mut response = next.run(request).instrument(span.clone()).await;
    let (status, took) = (response.status().as_u16(), started.elapsed());
    metrics.count(method_label(&method), &route, status, took);
    span.in_scope(|| tracing::info!(status, ms = took.as_millis() as u64, "request answered"));
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(HEADER, id);
    }
    response
}

/// Returns the label of a method. Unknown methods share one label, so that the number of label values is bounded.
fn method_label(method: &Method) -> &'static str {
    let known = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    known.into_iter().find(|it| *it == method.as_str()).unwrap_or("other")
}

/// Returns the request id that the client or a proxy sent, if it is safe to log. Otherwise returns a new id.
fn request_id(headers: &HeaderMap) -> String {
    let sent = headers.get(HEADER).and_then(|it| it.to_str().ok());
    if let Some(sent) = sent.filter(|it| crate::run::is_valid_id(it)) {
        return sent.to_owned();
    }
    let mut bytes = [0_u8; 8];
    // If no random bytes are available, the id is zero, which only affects the log.
    let _ = getrandom::fill(&mut bytes);
    hex::encode(bytes)
}
