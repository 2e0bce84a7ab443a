//! JSON-RPC endpoints through which other programs call the graphs: MCP for tools, A2A for agents.

mod a2a;
mod envelope;
mod mcp;

use std::sync::Arc;

use axum::Router;
use serde_json::{Value, json};
use uuid::Uuid;

use super::run_response::create_run;
use crate::langgraph::{
    error::{ApiError, ApiResult},
    manager::Manager,
};

pub(super) fn routes() -> Router<Arc<Manager>> {
    Router::new().merge(mcp::routes()).merge(a2a::routes())
}

/// Runs an assistant to its end. Returns the id of the run and its output. Without a thread, the run has its own.
async fn run_to_end(
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
fn error_of(output: &Value) -> Option<String> {
    let error = output.get("__error__")?;
    let text = |field: &str| error[field].as_str().unwrap_or_default().to_owned();
    Some(format!("{}: {}", text("error"), text("message")))
}
