//! Commands of clients, and the answers to them.

use graph_core::RunError;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::langgraph::{
    error::{ApiError, ApiResult},
    manager::Manager,
    stream::protocol::last_number,
};

/// A command for a thread.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CommandRequest {
    pub(super) id: u64,
    pub(super) method: String,
    #[serde(default)]
    pub(super) params: Map<String, Value>,
}

/// A failed command: an error code of the protocol and a description.
pub(super) struct CommandError(pub(super) &'static str, pub(super) String);

pub(super) type CommandResult<T> = Result<T, CommandError>;

impl From<ApiError> for CommandError {
    fn from(error: ApiError) -> Self {
        let code = if error.is_internal() { "unknown_error" } else { "invalid_argument" };
        Self(code, error.to_string())
    }
}

impl From<RunError> for CommandError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::UnknownSubgraph { .. } => Self("no_such_namespace", error.to_string()),
            other => ApiError::from(other).into(),
        }
    }
}

impl CommandError {
    pub(super) fn invalid(problem: impl Into<String>) -> Self {
        Self("invalid_argument", problem.into())
    }

    /// Returns the answer to the command with this id, or to a message that is not a command.
    pub(super) fn answer(self, id: Option<u64>) -> Value {
        let Self(code, message) = self;
        json!({ "type": "error", "id": id, "error": code, "message": message })
    }
}

/// Returns the answer to a command that has succeeded.
pub(super) fn success(id: u64, result: Value, meta: Value) -> Value {
    let mut answer = json!({ "type": "success", "id": id });
    answer["result"] = result;
    answer["meta"] = meta;
    answer
}

/// Parses the parameters of a command.
pub(super) fn parse<T: DeserializeOwned>(params: Map<String, Value>) -> CommandResult<T> {
    serde_json::from_value(Value::Object(params))
        .map_err(|error| CommandError::invalid(format!("invalid params: {error}")))
}

/// Returns the number of the thread's last event.
pub(super) async fn applied_through(manager: &Manager, thread: Uuid) -> ApiResult<u64> {
    Ok(last_number(manager.feed(thread).await?.last_seq()))
}
