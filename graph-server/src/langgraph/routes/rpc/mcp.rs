//! MCP: each graph is a tool. The endpoint is stateless: there are no sessions and no messages from the server.

use std::sync::Arc;

use axum::{
    Json, Router,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::post,
};
use serde_json::{Value, json};

use super::{
    envelope::{Request, RpcError, response},
    run::{error_of, output_of, start_run},
};
use crate::langgraph::{access::Access, manager::Manager, request::body::Body};

/// Versions of the protocol that the endpoint supports, newest first. Version 2025-03-26 is missing, because it
/// requires servers to accept batches of requests; no other version has batches.
const VERSIONS: [&str; 3] = ["2025-11-25", "2025-06-18", "2024-11-05"];

pub(super) fn routes() -> Router<Arc<Manager>> {
    // Other methods are answered with 405: clients then know that there is no stream and no session.
    Router::new().route("/mcp", post(handle)).route("/mcp/", post(handle))
}

async fn handle(
    Access(manager): Access,
    headers: HeaderMap,
    Body(request): Body<Request>,
) -> Response {
    if let Err(error) = check_version(&request.method, &headers) {
        let body = response(request.id.as_ref(), Err(error));
        return (StatusCode::BAD_REQUEST, Json(body)).into_response();
    }
    if request.id.is_none() {
        return StatusCode::ACCEPTED.into_response();
    }
    let result = match request.check() {
        Ok(()) => call(&manager, &request).await,
        Err(error) => Err(error),
    };
    Json(response(request.id.as_ref(), result)).into_response()
}

/// Checks the version of the protocol, which clients send with every request after `initialize`.
fn check_version(method: &str, headers: &HeaderMap) -> Result<(), RpcError> {
    let version = headers.get("mcp-protocol-version").filter(|_| method != "initialize");
    let is_known = version.is_none_or(|it| it.to_str().is_ok_and(|it| VERSIONS.contains(&it)));
    if is_known {
        return Ok(());
    }
    let versions = VERSIONS.join(", ");
    let problem =
        format!("unsupported version in the header `MCP-Protocol-Version`; use one of {versions}");
    Err(RpcError(-32600, problem))
}

async fn call(manager: &Arc<Manager>, request: &Request) -> Result<Value, RpcError> {
    match request.method.as_str() {
        "initialize" => Ok(initialize(&request.params)),
        "ping" => Ok(json!({})),
        "tools/list" => Ok(json!({ "tools": tools(manager) })),
        "tools/call" => call_tool(manager, &request.params).await,
        method => Err(RpcError::unknown_method(method)),
    }
}

fn initialize(params: &Value) -> Value {
    // A client that supports a version usually supports the earlier ones too. Versions are dates, so they can be
    // compared as strings.
    let wanted = params["protocolVersion"].as_str().unwrap_or_default();
    let version = VERSIONS.into_iter().find(|it| *it <= wanted).unwrap_or(VERSIONS[0]);
    json!({
        "protocolVersion": version,
        "capabilities": { "tools": { "listChanged": false } },
        "serverInfo": { "name": env!("CARGO_PKG_NAME"), "version": env!("CARGO_PKG_VERSION") },
    })
}

fn tools(manager: &Manager) -> Vec<Value> {
    let tool = |name: &str| {
        let schema = manager.graphs.get(name).and_then(|it| it.schemas().input.clone());
        let mut schema = schema.filter(Value::is_object).unwrap_or_else(|| json!({}));
        schema["type"] = json!("object");
        json!({
            "name": name,
            "description": format!("Runs the graph `{name}` and returns its output."),
            "inputSchema": schema,
        })
    };
    manager.graphs.names().map(tool).collect()
}

async fn call_tool(manager: &Arc<Manager>, params: &Value) -> Result<Value, RpcError> {
    let name = params["name"].as_str().unwrap_or_default();
    if manager.graphs.get(name).is_none() {
        return Err(RpcError::invalid_params(format!(
            "unknown tool `{name}`; call `tools/list` for the tools"
        )));
    }
    let input = match &params["arguments"] {
        Value::Null => json!({}),
        Value::Object(arguments) => json!(arguments),
        _ => return Err(RpcError::invalid_params("`arguments` must be an object")),
    };
    let (_, live) = start_run(manager, None, name, &input).await?;
    let output = output_of(&live).await?;
    Ok(match error_of(&output) {
        Some(error) => {
            json!({ "content": [{ "type": "text", "text": error }], "isError": true })
        }
        None => json!({
            "content": [{ "type": "text", "text": output.to_string() }],
            "structuredContent": output,
            "isError": false,
        }),
    })
}
