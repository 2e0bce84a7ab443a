//! Tests with the MCP reference server from npm, over standard input and output and over streamable HTTP.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use graph_agents::{
    Content, Message,
    mcp::{McpClient, McpOptions, ResourceContents},
};
use serde_json::{Value, json};
use test_support::{DEADLINE, peers};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use crate::call_tool;

fn dir() -> Option<PathBuf> {
    peers::find("mcp-everything-2026.8.31", "GRAPH_REQUIRE_MCP_EVERYTHING")
}

fn command(dir: &Path, transport: &str) -> Command {
    let mut command = Command::new("node");
    let program = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
    command.arg(dir.join(program)).arg(transport);
    command
}

/// Returns options for a server whose start may take long on a busy machine.
fn options() -> McpOptions {
    McpOptions::new().timeout(DEADLINE).trusted()
}

async fn over_stdio() -> Option<McpClient> {
    let mut command = command(&dir()?, "stdio");
    command.env("CITY", "Rome");
    Some(McpClient::stdio(command, options()).await.unwrap())
}

/// Connects over HTTP. The server runs until the returned child is dropped.
async fn over_http() -> Option<(McpClient, Child)> {
    let dir = dir()?;
    let (server, port) = loop {
        // The server cannot choose a free port itself, and exits if the port is in use. All ports in this range are
        // below those that the system assigns to programs.
        let port = fastrand::u16(10_000..32_000);
        if let Some(server) = listen(&dir, port).await {
            break (server, port);
        }
    };
    let url = format!("http://127.0.0.1:{port}/mcp");
    Some((McpClient::http(&url, options()).await.unwrap(), server))
}

/// Starts the server on a port. Returns `None` if the port is taken.
async fn listen(dir: &Path, port: u16) -> Option<Child> {
    let mut server = command(dir, "streamableHttp")
        .env("PORT", port.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stderr.take().unwrap()).lines();
    let mut output = String::new();
    loop {
        let Some(line) = lines.next_line().await.unwrap() else {
            assert!(output.contains("already in use"), "the server does not start: {output}");
            return None;
        };
        if line.contains("listening") {
            break;
        }
        output.push_str(&line);
    }
    // Keep reading, so that the server never blocks on a full pipe.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    Some(server)
}

async fn check_tools(client: &McpClient) {
    let tools = client.tools().await.unwrap();
    let sum = call_tool(tools.clone(), "get-sum", json!({"a": 40, "b": "2"})).await.unwrap();
    assert_eq!(sum.content.text(), "The sum of 40 and 2 is 42.");

    let weather = json!({"location": "Chicago"});
    let weather = call_tool(tools.clone(), "get-structured-content", weather).await.unwrap();
    let artifact = weather.artifact.unwrap();
    assert_eq!(artifact["structured_content"]["temperature"], 36);

    let image = call_tool(tools, "get-tiny-image", json!({})).await.unwrap();
    let Content::Blocks(blocks) = image.content else { panic!("not blocks: {image:?}") };
    let image = blocks.iter().find(|it| it["type"] == "image").unwrap();
    assert_eq!(image["mime_type"], "image/png");
    assert!(image["base64"].as_str().unwrap().starts_with("iVBOR"));
}

#[tokio::test]
async fn tools_work_over_stdio() {
    let Some(client) = over_stdio().await else { return };
    check_tools(&client).await;
}

#[tokio::test]
async fn tools_work_over_http() {
    let Some((client, _server)) = over_http().await else { return };
    check_tools(&client).await;
}

#[tokio::test]
async fn resources_can_be_read() {
    let Some(client) = over_stdio().await else { return };
    let resources = client.resources().await.unwrap();
    let document = resources.iter().find(|it| it.name == "features.md").unwrap();
    let contents = client.read_resource(&document.uri).await.unwrap();
    let [ResourceContents::TextResourceContents { text, .. }] = &contents[..] else {
        panic!("{contents:?}");
    };
    assert!(text.contains("Tools"), "{text}");
    let error = client.read_resource("demo://no-such-resource").await.unwrap_err();
    assert!(error.to_string().contains("no-such-resource"), "{error}");
}

#[tokio::test]
async fn prompts_become_messages() {
    let Some(client) = over_stdio().await else { return };
    let prompts = client.prompts().await.unwrap();
    let prompt = prompts.iter().find(|it| it.name == "args-prompt").unwrap();
    assert_eq!(prompt.arguments.as_ref().unwrap()[0].name, "city");
    let arguments = [("city".to_owned(), "Rome".to_owned())];
    let messages = client.prompt("args-prompt", arguments).await.unwrap();
    assert_eq!(messages, [Message::human("What's weather in Rome?")]);
}

#[tokio::test]
async fn server_does_not_inherit_the_environment() {
    let Some(client) = over_stdio().await else { return };
    let message = call_tool(client.tools().await.unwrap(), "get-env", json!({})).await.unwrap();
    let environment: Value = serde_json::from_str(&message.content.text()).unwrap();
    let environment = environment.as_object().unwrap();
    assert_eq!(environment["CITY"], "Rome");
    assert!(environment.contains_key("PATH"));
    assert!(!environment.keys().any(|it| it.starts_with("CARGO")), "{environment:?}");
}

#[tokio::test]
async fn slow_call_times_out() {
    let Some(client) = over_stdio().await else { return };
    let tools = client.tools().await.unwrap().into_iter();
    let tools = tools.map(|it| it.timeout(Duration::from_millis(1))).collect();
    let error = call_tool(tools, "trigger-long-running-operation", json!({"duration": 1000})).await;
    assert!(error.unwrap_err().to_string().contains("did not finish within 1ms"));
}
