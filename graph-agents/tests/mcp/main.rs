//! Tests of MCP clients and servers. Servers that others wrote are installed by `cargo xtask test`; without them, their
//! tests are skipped with a message.
#![expect(clippy::unwrap_used, reason = "a failure fails the test")]

mod agent_server;
mod everything;
mod time_server;
mod untrusted;

use graph_agents::{Agent, AiMessage, ScriptedModel, Tool, ToolCall, ToolMessage};
use graph_core::RunError;
use serde_json::Value;

/// Runs an agent whose model calls the tool with this name once, and returns the message with the result.
async fn call_tool(tools: Vec<Tool>, name: &str, args: Value) -> Result<ToolMessage, RunError> {
    let call = AiMessage::new("").tool_call(ToolCall::new(name, args, "call-1"));
    let model = ScriptedModel::new([call, AiMessage::new("done")]);
    let agent = Agent::new(model).tools(tools).compile().unwrap();
    let outcome = agent.run("go").await?;
    assert_eq!(outcome.text(), "done");
    let message = outcome.messages.iter().find_map(|it| it.as_tool());
    Ok(message.expect("the tool was called").clone())
}
