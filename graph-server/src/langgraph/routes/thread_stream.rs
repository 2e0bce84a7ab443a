//! The stream of a thread's events.

use std::sync::Arc;

use axum::{
    Router,
    extract::{Path, State},
    http::HeaderMap,
    response::Response,
    routing::get,
};

use super::run_control::last_event_id;
use crate::langgraph::{
    error::{ApiError, ApiResult},
    id::parse_id,
    manager::{Manager, ThreadEvents},
    request::query::Query,
    stream::sse::respond,
};

pub(super) fn routes() -> Router<Arc<Manager>> {
    Router::new().route("/threads/{thread}/stream", get(stream))
}

/// Streams the events of all runs of a thread until the client disconnects.
async fn stream(
    State(manager): State<Arc<Manager>>,
    Path(thread): Path<String>,
    headers: HeaderMap,
    mut query: Query,
) -> ApiResult<Response> {
    let mut modes = query.list("stream_mode");
    modes.extend(query.list("stream_modes"));
    query.finish()?;
    for mode in &modes {
        if !matches!(mode.as_str(), "run_modes" | "lifecycle") {
            let detail = format!("invalid stream mode `{mode}`; use `run_modes` or `lifecycle`");
            return Err(ApiError::invalid(detail));
        }
    }
    let lifecycle_only = !modes.is_empty() && modes.iter().all(|it| it == "lifecycle");
    let seen = last_event_id(&headers)?;
    let thread = manager.thread(parse_id("thread", &thread)?)?.thread_id;
    let events = ThreadEvents::new(manager.feed(thread), seen, lifecycle_only);
    Ok(respond(events, ()))
}
