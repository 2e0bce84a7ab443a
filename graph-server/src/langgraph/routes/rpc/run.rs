//! Runs that are started by other programs.

use std::sync::Arc;

use serde_json::{Value, json};
use uuid::Uuid;

use super::super::run_response::create_run;
use crate::langgraph::{
    error::{ApiError, ApiResult},
    manager::{LiveRun, Manager},
};

/// Starts a run of an assistant. Returns its id and the active run. If `thread` is `None`, a new thread is created.
pub(super) async fn start_run(
    manager: &Arc<Manager>,
    thread: Option<Uuid>,
    assistant: &str,
    input: &Value,
) -> ApiResult<(Uuid, Arc<LiveRun>)> {
    let body = json!({ "assistant_id": assistant, "input": input, "if_not_exists": "create" });
    let body =
        serde_json::from_value(body).map_err(|error| ApiError::invalid(error.to_string()))?;
    let (run, live) = create_run(manager, thread, &body).await?;
    Ok((run.run_id, live))
}

/// Waits for the end of a run and returns its output.
pub(super) async fn output_of(live: &LiveRun) -> ApiResult<Value> {
    let shutting_down = || ApiError::conflict("the server is shutting down; try again later");
    live.output().await.ok_or_else(shutting_down)
}

/// Returns the error of a failed run's output.
pub(super) fn error_of(output: &Value) -> Option<String> {
    let error = output.get("__error__")?;
    let text = |field: &str| error[field].as_str().unwrap_or_default().to_owned();
    Some(format!("{}: {}", text("error"), text("message")))
}
