//! Requests and responses of JSON-RPC 2.0.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::langgraph::error::ApiError;

/// A request. A notification has no id.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    pub(super) jsonrpc: String,
    pub(super) id: Option<Value>,
    pub(super) method: String,
    #[serde(default)]
    pub(super) params: Value,
}

/// An error: a code of JSON-RPC and a description.
pub(super) struct RpcError(pub(super) i32, pub(super) String);

impl RpcError {
    pub(super) fn invalid_params(problem: impl Into<String>) -> Self {
        Self(-32602, problem.into())
    }

    pub(super) fn unknown_method(method: &str) -> Self {
        Self(-32601, format!("unknown method `{method}`"))
    }
}

impl From<ApiError> for RpcError {
    fn from(error: ApiError) -> Self {
        let code = if error.is_internal() { -32603 } else { -32602 };
        Self(code, error.to_string())
    }
}

impl Request {
    /// Checks the version of the protocol.
    pub(super) fn check(&self) -> Result<(), RpcError> {
        match self.jsonrpc.as_str() {
            "2.0" => Ok(()),
            other => Err(RpcError(-32600, format!("`jsonrpc` is `{other}`; it must be `2.0`"))),
        }
    }
}

/// Creates the response to a request.
pub(super) fn response(id: Option<&Value>, result: Result<Value, RpcError>) -> Value {
    match result {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err(RpcError(code, message)) => json!({
            "jsonrpc": "2.0",
            "id": id,
            "error": { "code": code, "message": message },
        }),
    }
}
