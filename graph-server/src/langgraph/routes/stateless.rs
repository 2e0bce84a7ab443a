//! Runs without a thread. The server creates a thread for each of them, and deletes it when the run has ended.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::State,
    response::{IntoResponse, Response},
    routing::post,
};

use super::{
    run_response::{CancelOnDrop, create_run, stream_run, wait_for_run, with_location},
    runs::selection,
};
use crate::langgraph::{
    error::ApiResult,
    manager::Manager,
    records::Run,
    request::{body::Body, run::RunCreate},
};

pub(super) fn routes() -> Router<Arc<Manager>> {
    Router::new()
        .route("/runs", post(create))
        .route("/runs/wait", post(wait))
        .route("/runs/stream", post(stream))
}

fn address(run: &Run) -> String {
    format!("/runs/{}", run.run_id)
}

async fn create(
    State(manager): State<Arc<Manager>>,
    Body(body): Body<RunCreate>,
) -> ApiResult<Response> {
    let (run, _) = create_run(&manager, None, &body)?;
    Ok(with_location(Json(&run).into_response(), &address(&run), None))
}

async fn wait(
    State(manager): State<Arc<Manager>>,
    Body(body): Body<RunCreate>,
) -> ApiResult<Response> {
    let (run, live) = create_run(&manager, None, &body)?;
    let guard = CancelOnDrop::new(&manager, &live, body.on_disconnect);
    let own = format!("/threads/{}/runs/{}", run.thread_id, run.run_id);
    Ok(with_location(wait_for_run(&live, guard), &own, Some("join")))
}

async fn stream(
    State(manager): State<Arc<Manager>>,
    Body(body): Body<RunCreate>,
) -> ApiResult<Response> {
    let (run, live) = create_run(&manager, None, &body)?;
    let guard = CancelOnDrop::new(&manager, &live, body.on_disconnect);
    let response = stream_run(&live, selection(&run), None, guard);
    Ok(with_location(response, &address(&run), Some("stream")))
}
