//! Tests of agents as MCP servers, over HTTP and in memory.

use std::{process::Stdio, sync::Arc};

use graph_agents::{
    Agent, AiMessage, CompiledAgent, ScriptedModel, Status, Tool, ToolCall, ToolRuntime,
    mcp::{AgentServer, McpClient, McpOptions},
};
use graph_core::MemorySaver;
use rmcp::ServiceExt;
use serde_json::json;
use test_support::peers;
use tokio::{
    io::duplex,
    net::TcpListener,
    process::Command,
    sync::{Semaphore, oneshot},
};

use crate::call_tool;

fn weather_agent(answers: usize) -> CompiledAgent {
    let answers = (0..answers).map(|_| AiMessage::new("It rains."));
    Agent::new(ScriptedModel::new(answers)).name("weather").compile().unwrap()
}

/// Returns an agent whose only tool runs this function.
fn agent_with<F, Fut>(body: F) -> CompiledAgent
where
    F: Fn(ToolRuntime) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<String, graph_core::NodeError>> + Send + 'static,
{
    let tool = Tool::dynamic("work", "Works.", json!({}), move |_, runtime| body(runtime));
    let call = AiMessage::new("").tool_call(ToolCall::new("work", json!({}), "call-1"));
    let model = ScriptedModel::new([call, AiMessage::new("done")]);
    let agent = Agent::new(model).name("worker").tools([tool]);
    agent.checkpointer(MemorySaver::new()).compile().unwrap()
}

/// Serves an agent over HTTP and returns the URL.
async fn over_http(agent: CompiledAgent) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let router = AgentServer::new(agent, "Answers.").router();
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

/// Serves an agent in memory and connects to it.
async fn in_memory(agent: CompiledAgent) -> McpClient {
    let (client_end, server_end) = duplex(4096);
    let server = AgentServer::new(agent, "Answers.");
    tokio::spawn(async move { server.serve(server_end).await.unwrap().waiting().await });
    McpClient::connect("memory", client_end, McpOptions::new().trusted()).await.unwrap()
}

#[tokio::test]
async fn agent_is_a_tool_of_another_agent() {
    let url = over_http(weather_agent(2)).await;
    let client = McpClient::http(&url, McpOptions::new().trusted()).await.unwrap();
    let tools = client.tools().await.unwrap();
    assert_eq!(tools[0].name(), "weather");
    for _ in 0..2 {
        let question = json!({"message": "How is the weather?"});
        let message = call_tool(tools.clone(), "weather", question).await.unwrap();
        assert_eq!(
            (message.content.text().as_str(), message.status),
            ("It rains.", Status::Success)
        );
    }
    // The script of the agent's model has no answers left, so the agent fails.
    let message = call_tool(tools, "weather", json!({"message": "again"})).await.unwrap();
    assert_eq!(message.status, Status::Error);
    assert!(message.content.text().contains("no answers left"), "{message:?}");
}

#[tokio::test]
async fn official_client_calls_an_agent_over_http() {
    let Some(client) = peers::find("mcp-2.3.0", "GRAPH_REQUIRE_MCP") else { return };
    let url = over_http(weather_agent(1)).await;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/client.py");
    let mut command = Command::new("python3");
    command.args([script, "http", &url]).env("PYTHONPATH", client).stderr(Stdio::inherit());
    let output = command.env("PYTHONDONTWRITEBYTECODE", "1").output().await.unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "weather: It rains.\n");
}

#[tokio::test]
async fn requests_for_other_hosts_are_rejected() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let router = AgentServer::new(weather_agent(1), "Answers.").allowed_hosts(["example.org"]);
    tokio::spawn(async move { axum::serve(listener, router.router()).await });
    assert!(McpClient::http(&url, McpOptions::new()).await.is_err());
}

#[tokio::test]
async fn question_to_a_person_fails_the_call() {
    let agent = agent_with(async |runtime| runtime.interrupt::<String>("May I?"));
    let client = in_memory(agent).await;
    let tools = client.tools().await.unwrap();
    let message = call_tool(tools, "worker", json!({"message": "go"})).await.unwrap();
    assert_eq!(message.status, Status::Error);
    assert!(message.content.text().ends_with("answer to: \"May I?\""), "{message:?}");
}

#[tokio::test]
async fn unknown_arguments_are_an_error_for_the_model() {
    let client = in_memory(weather_agent(1)).await;
    let tools = client.tools().await.unwrap();
    let message = call_tool(tools, "weather", json!({"text": "go"})).await.unwrap();
    assert_eq!(message.status, Status::Error);
    assert!(message.content.text().contains("message: Field required"), "{message:?}");
}

/// Dropping a run of the client's agent cancels the call at the server, which drops the run of the served agent.
#[tokio::test]
async fn dropped_call_is_cancelled_at_the_server() {
    struct SendOnDrop(Option<oneshot::Sender<()>>);
    impl Drop for SendOnDrop {
        fn drop(&mut self) {
            let _ = self.0.take().unwrap().send(());
        }
    }
    let (sender, dropped) = oneshot::channel();
    let guard = Arc::new(std::sync::Mutex::new(Some(SendOnDrop(Some(sender)))));
    let started = Arc::new(Semaphore::new(0));
    let has_started = started.clone();
    let agent = agent_with(move |_| {
        let guard = guard.lock().unwrap().take();
        has_started.add_permits(1);
        async move {
            let _guard = guard;
            std::future::pending().await
        }
    });
    let client = in_memory(agent).await;
    let tools = client.tools().await.unwrap();
    let run = tokio::spawn(call_tool(tools, "worker", json!({"message": "go"})));
    drop(started.acquire().await.unwrap());
    run.abort();
    dropped.await.unwrap();
}

#[tokio::test]
async fn lost_connection_is_a_named_error() {
    let (client_end, server_end) = duplex(4096);
    let server = AgentServer::new(weather_agent(1), "Answers.");
    let server = tokio::spawn(async move { server.serve(server_end).await.unwrap() });
    let client = McpClient::connect("memory", client_end, McpOptions::new()).await.unwrap();
    let tools = client.tools().await.unwrap();
    server.await.unwrap().cancel().await.unwrap();
    let error = call_tool(tools, "weather", json!({"message": "go"})).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("lost the connection to the MCP server `memory`"), "{text}");
}

#[tokio::test]
async fn secrets_in_an_address_are_not_shown() {
    // Nothing listens on port 1.
    let url = "http://127.0.0.1:1/mcp?key=very-secret";
    let options = McpOptions::new().bearer_token("also-secret");
    assert!(!format!("{options:?}").contains("secret"));
    let error = McpClient::http(url, options).await.unwrap_err();
    assert!(error.to_string().starts_with("cannot connect to the MCP server `127.0.0.1`: "));
    assert!(!format!("{error} {error:?}").contains("secret"), "{error}");
}
