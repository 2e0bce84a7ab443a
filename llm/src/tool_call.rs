//! Tool calls, and calls whose arguments cannot be parsed.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A tool call requested by the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Id of the call. The result of the call has the same id.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// The arguments as the model wrote them, not validated against the tool's schema.
    pub arguments: Value,
    /// Provider data that must be sent back unchanged with the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opaque: Option<Value>,
}

/// A tool call whose arguments are not a JSON object. It cannot be executed.
///
/// Weak models write such calls, and so do models that reach the token limit. To continue the conversation, answer the
/// call with a failed [`ToolResult`](crate::Part::ToolResult) that has the id of the call, so that the model can
/// correct it.
///
/// ```
/// use llm::{Llm, Message, Part, Reply, Request, Role, Scripted};
/// use serde_json::json;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// // A string is the text that the model wrote in place of the arguments.
/// let reply = Reply::ToolCall { name: "weather".into(), arguments: json!("{\"city\": Rome}") };
/// let llm = Llm::new(Scripted::replies("small", [reply, Reply::from("I cannot call the tool.")]));
/// let mut request = Request::new("Does it rain in Rome?");
///
/// let response = llm.generate(request.clone()).await?;
/// assert_eq!(response.tool_calls().count(), 0);
/// let call = response.invalid_tool_calls().next().expect("the call is kept").clone();
/// assert_eq!(call.arguments, "{\"city\": Rome}");
///
/// request.messages.push(response.into_message());
/// let result = Part::ToolResult { id: call.id, name: call.name, content: call.error, failed: true };
/// request.messages.push(Message::new(Role::User, vec![result]));
/// assert_eq!(llm.generate(request).await?.text(), "I cannot call the tool.");
/// # Ok::<(), llm::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InvalidToolCall {
    /// Id of the call. The result of the call has the same id.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// The text that the model wrote in place of the arguments.
    pub arguments: String,
    /// Reason why the arguments cannot be parsed.
    pub error: String,
    /// Provider data that must be sent back unchanged with the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opaque: Option<Value>,
}

/// Reads the arguments of a tool call from JSON or JSON text. `null` means that there are no arguments. If the
/// arguments are not an object, the error states the reason.
pub(crate) fn read_arguments(arguments: &Value) -> Result<Value, String> {
    match arguments {
        Value::Object(_) => Ok(arguments.clone()),
        Value::Null => Ok(Value::Object(Map::new())),
        Value::String(text) => parse_arguments(text),
        _ => Err(NOT_AN_OBJECT.to_owned()),
    }
}

const NOT_AN_OBJECT: &str = "the arguments are not a JSON object";

/// Parses the arguments of a tool call from JSON text. Empty text means that there are no arguments.
pub(crate) fn parse_arguments(text: &str) -> Result<Value, String> {
    if matches!(text.trim(), "" | "null") {
        return Ok(Value::Object(Map::new()));
    }
    match serde_json::from_str(text) {
        Ok(arguments @ Value::Object(_)) => Ok(arguments),
        Ok(_) => Err(NOT_AN_OBJECT.to_owned()),
        Err(error) => Err(format!("the arguments are not JSON: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_are_parsed() {
        assert_eq!(parse_arguments(""), Ok(json!({})));
        assert_eq!(parse_arguments(" \n"), Ok(json!({})));
        assert_eq!(parse_arguments("null"), Ok(json!({})));
        assert_eq!(parse_arguments(r#"{"a":1}"#), Ok(json!({ "a": 1 })));
        for bad in ["{\"a\":", "3", "[]", "{} {}"] {
            assert!(parse_arguments(bad).is_err(), "{bad}");
        }
    }
}
