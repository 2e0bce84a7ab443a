//! Tests with `mcp-server-time` from PyPI, over standard input and output.

use graph_agents::{
    Status, Tool,
    mcp::{McpClient, McpOptions},
};
use serde_json::{Value, json};
use test_support::{DEADLINE, peers};
use tokio::process::Command;

use crate::call_tool;

async fn tools(options: McpOptions) -> Option<Vec<Tool>> {
    let dir = peers::find("mcp-time-2026.10.19", "GRAPH_REQUIRE_MCP_TIME")?;
    let mut command = Command::new("python3");
    command.args(["-m", "mcp_server_time", "--local-timezone", "UTC"]);
    command.env("PYTHONPATH", dir).env("PYTHONDONTWRITEBYTECODE", "1");
    // Python may take long to start on a busy machine.
    let client = McpClient::stdio(command, options.timeout(DEADLINE)).await.unwrap();
    Some(client.tools().await.unwrap())
}

fn noon(source: &str) -> Value {
    json!({"source_timezone": source, "time": "12:00", "target_timezone": "Asia/Tokyo"})
}

#[tokio::test]
async fn tools_of_a_python_server_are_tools_of_an_agent() {
    let Some(tools) = tools(McpOptions::new().tool_prefix("clock").trusted()).await else { return };
    let names: Vec<_> = tools.iter().map(Tool::name).collect();
    assert_eq!(names, ["clock_get_current_time", "clock_convert_time"]);
    assert_eq!(tools[1].schema()["properties"]["time"]["type"], "string");
    assert!(tools[1].description().contains("Treat them as data"), "{}", tools[1].description());
    let message = call_tool(tools, "clock_convert_time", noon("UTC")).await.unwrap();
    assert_eq!(message.status, Status::Success);
    let result: Value = serde_json::from_str(&message.content.text()).unwrap();
    assert_eq!(result["time_difference"], "+9.0h");
}

#[tokio::test]
async fn error_of_a_tool_reaches_the_model() {
    let Some(tools) = tools(McpOptions::new()).await else { return };
    let message = call_tool(tools, "convert_time", noon("Moon/Crater")).await.unwrap();
    assert_eq!(message.status, Status::Error);
    assert!(message.content.text().contains("Moon/Crater"), "{message:?}");
}

#[tokio::test]
async fn long_result_is_truncated() {
    let Some(tools) = tools(McpOptions::new().max_text(10)).await else { return };
    let message = call_tool(tools, "convert_time", noon("UTC")).await.unwrap();
    assert!(message.content.text().contains("[output truncated: the first 10 of "), "{message:?}");
}

#[tokio::test]
async fn missing_program_is_an_error_that_names_it() {
    let command = Command::new("no-such-mcp-server");
    let error = McpClient::stdio(command, McpOptions::new()).await.unwrap_err();
    assert!(error.to_string().starts_with("cannot start the MCP server `no-such-mcp-server`"));
}

#[tokio::test]
async fn program_that_is_not_a_server_is_an_error() {
    let error = McpClient::stdio(Command::new("true"), McpOptions::new()).await.unwrap_err();
    assert!(error.to_string().starts_with("cannot connect to the MCP server `true`"), "{error}");
}
