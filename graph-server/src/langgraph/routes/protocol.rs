//! The event protocol of newer clients: commands for a thread, and the stream of its events.

mod command;
mod execute;
mod release_feed;
mod runs;
mod socket;
mod state;
mod subscription;
mod subscription_events;
mod tree;

use std::sync::Arc;

use axum::{Json, Router, extract::Path, http::HeaderMap, response::Response, routing::post};
use serde_json::Value;

pub(super) use self::release_feed::ReleaseFeed;
use self::{command::CommandRequest, execute::execute};
use crate::langgraph::{
    access::Access,
    error::ApiResult,
    id::parse_id,
    manager::{Manager, ProtocolEvents},
    request::body::Body,
    stream::{protocol::Filter, sse::respond},
};

pub(super) fn routes() -> Router<Arc<Manager>> {
    Router::new()
        .route("/threads/{thread}/commands", post(run_command))
        .route("/threads/{thread}/stream/events", post(stream).get(socket::open))
}

async fn run_command(
    Access(manager): Access,
    Path(thread): Path<String>,
    Body(body): Body<CommandRequest>,
) -> ApiResult<Json<Value>> {
    let thread = parse_id("thread", &thread)?;
    manager.check_access(thread).await?;
    Ok(Json(execute(&manager, thread, body).await))
}

/// Streams events of a thread. The thread need not exist yet: clients open streams before they start the first run.
async fn stream(
    Access(manager): Access,
    Path(thread): Path<String>,
    headers: HeaderMap,
    Body(filter): Body<Filter>,
) -> ApiResult<Response> {
    let thread = parse_id("thread", &thread)?;
    manager.check_access(thread).await?;
    filter.check()?;
    let last = headers.get("last-event-id").and_then(|it| it.to_str().ok()?.parse().ok());
    let (feed, view) = (manager.feed(thread).await?, manager.database.view().clone());
    let events = ProtocolEvents::new(feed, filter.after(last), view);
    Ok(respond(events, ReleaseFeed { manager, thread }))
}
