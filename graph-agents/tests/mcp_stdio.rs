//! An agent as an MCP server over standard input and output. This program is both the server and its test: the test
//! starts the program again with the argument `serve`.
#![expect(clippy::print_stdout, reason = "a test program without the standard harness")]

use std::env;

use graph_agents::{
    Agent, AiMessage, ScriptedModel, ToolCall,
    mcp::{AgentServer, McpClient, McpOptions},
};
use serde_json::json;
use test_support::{DEADLINE, peers};
use tokio::process::Command;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let program = env::current_exe()?;
    if env::args().nth(1).as_deref() == Some("serve") {
        let model = ScriptedModel::new([AiMessage::new("It rains.")]);
        let agent = Agent::new(model).name("weather").compile()?;
        return Ok(AgentServer::new(agent, "Answers.").serve_stdio().await?);
    }

    let mut server = Command::new(&program);
    server.arg("serve");
    let client = McpClient::stdio(server, McpOptions::new().timeout(DEADLINE)).await?;
    let question = json!({"message": "How is the weather?"});
    let call = AiMessage::new("").tool_call(ToolCall::new("weather", question, "call-1"));
    let model = ScriptedModel::new([call, AiMessage::new("done")]);
    let outcome = Agent::new(model).tools(client.tools().await?).compile()?.run("go").await?;
    assert!(outcome.messages[2].text().contains("\nIt rains.\n"));
    println!("own client: ok");

    if let Some(client) = peers::find("mcp-2.3.0", "GRAPH_REQUIRE_MCP") {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/client.py");
        let mut command = Command::new("python3");
        command.args([script, "stdio"]).arg(&program).arg("serve");
        command.env("PYTHONPATH", client).env("PYTHONDONTWRITEBYTECODE", "1");
        let output = command.output().await?;
        assert_eq!(String::from_utf8_lossy(&output.stdout), "weather: It rains.\n", "{output:?}");
        println!("official client: ok");
    }
    Ok(())
}
