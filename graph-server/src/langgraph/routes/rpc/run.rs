//! Runs that are started by other programs.

use std::sync::Arc;

use serde_json::{Value, json};
use uuid::Uuid;

use super::super::run_response::create_run;
use crate::langgraph::{
    error::{ApiError, ApiResult},
    manager::Manager,
};

/// Runs an assistant to its end. Returns the id of the run and its output. Without a thread, the run has its own.
pub(super) async fn run_to_end(
    manager: &Arc<Manager>,
    thread: Option<Uuid>,
    assistant: &str,
    input: Value,
) -> ApiResult<(Uuid, Value)> {
    let body = json!({ "assistant_id": assistant, "input": input, "if_not_exists": "create" });
    let body =
        serde_json::from_value(body).map_err(|error| ApiError::invalid(error.to_string()))?;
    let (run, live) = create_run(manager, thread, &body)?;
    let result = live.result().await;
    let output = result.ok_or_else(|| ApiError::conflict("the server is shutting down"))?.output;
    Ok((run.run_id, output))
}

/// Returns the error of a failed run's output.
pub(super) fn error_of(output: &Value) -> Option<String> {
    let error = output.get("__error__")?;
    let text = |field: &str| error[field].as_str().unwrap_or_default().to_owned();
    Some(format!("{}: {}", text("error"), text("message")))
}
