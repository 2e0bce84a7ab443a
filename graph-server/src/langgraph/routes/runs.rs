//! Runs on threads: create, wait and stream.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::Path,
    response::{IntoResponse, Response},
    routing::post,
};

use super::run_response::{
    CancelOnDrop, address, create_run, stream_run, wait_for_run, with_location,
};
use crate::langgraph::{
    access::Access,
    error::ApiResult,
    id::parse_id,
    manager::Manager,
    request::{body::Body, run::RunCreate},
};

pub(super) fn routes() -> Router<Arc<Manager>> {
    Router::new()
        .route("/threads/{thread}/runs", post(create))
        .route("/threads/{thread}/runs/wait", post(wait))
        .route("/threads/{thread}/runs/stream", post(stream))
}

async fn create(
    Access(manager): Access,
    Path(thread): Path<String>,
    Body(body): Body<RunCreate>,
) -> ApiResult<Response> {
    let (run, _) = create_run(&manager, Some(parse_id("thread", &thread)?), &body).await?;
    Ok(with_location(Json(&run).into_response(), &address(&run), None))
}

async fn wait(
    Access(manager): Access,
    Path(thread): Path<String>,
    Body(body): Body<RunCreate>,
) -> ApiResult<Response> {
    let (run, live) = create_run(&manager, Some(parse_id("thread", &thread)?), &body).await?;
    let guard = CancelOnDrop::new(&manager, &live, body.on_disconnect);
    Ok(with_location(wait_for_run(&live, guard), &address(&run), Some("join")))
}

async fn stream(
    Access(manager): Access,
    Path(thread): Path<String>,
    Body(body): Body<RunCreate>,
) -> ApiResult<Response> {
    let (run, live) = create_run(&manager, Some(parse_id("thread", &thread)?), &body).await?;
    let guard = CancelOnDrop::new(&manager, &live, body.on_disconnect);
    let response = stream_run(&live, live.selection.clone(), None, guard);
    Ok(with_location(response, &address(&run), Some("stream")))
}
