//! The stream of a thread's events.

use std::sync::Arc;

use axum::{Router, extract::Path, http::HeaderMap, response::Response, routing::get};

use super::{protocol::ReleaseFeed, run_control::last_event_id};
use crate::langgraph::{
    access::Access,
    error::{ApiError, ApiResult},
    id::parse_id,
    manager::{Manager, ThreadEvents, ThreadSelection},
    request::query::Query,
    stream::sse::respond,
};

pub(super) fn routes() -> Router<Arc<Manager>> {
    Router::new().route("/threads/{thread}/stream", get(stream))
}

/// Streams the events of all runs of a thread until the client disconnects.
async fn stream(
    Access(manager): Access,
    Path(thread): Path<String>,
    headers: HeaderMap,
    mut query: Query,
) -> ApiResult<Response> {
    let mut modes = query.take_list("stream_mode");
    modes.extend(query.take_list("stream_modes"));
    query.finish()?;
    let mut selection = ThreadSelection::default();
    for mode in &modes {
        match mode.as_str() {
            "run_modes" => selection.run_events = true,
            "lifecycle" => selection.lifecycle = true,
            "state_update" => selection.state_updates = true,
            _ => {
                let detail = format!(
                    "invalid stream mode `{mode}`; the modes are `run_modes`, `lifecycle` and `state_update`"
                );
                return Err(ApiError::invalid(detail));
            }
        }
    }
    selection.run_events |= modes.is_empty();
    let seen = last_event_id(&headers)?;
    let thread = manager.thread(parse_id("thread", &thread)?).await?.thread_id;
    let (feed, view) = (manager.feed(thread).await?, manager.database.view().clone());
    let events = ThreadEvents::new(feed, seen, selection, view);
    Ok(respond(events, ReleaseFeed { manager, thread }))
}
