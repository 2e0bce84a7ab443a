//! Tests that everything that a server returns is limited in size and marked as untrusted.

use graph_agents::{
    Message, Status,
    mcp::{McpClient, McpOptions, ResourceContents},
};
use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock,
        GetPromptRequestParams, GetPromptResponse, GetPromptResult, ListToolsResult,
        PaginatedRequestParams, PromptMessage, ReadResourceRequestParams, ReadResourceResponse,
        ReadResourceResult, Role, ServerCapabilities, ServerConfig, Tool,
    },
    service::RequestContext,
};
use serde_json::json;
use tokio::io::duplex;

use crate::call_tool;

const LONG: &str = "äöüß0123456789";
const SHORTENED: &str = "äöü\n[output truncated: the first 3 of 14 characters are shown]";

/// A server that returns the same text for everything. Its tool `fail` fails with the text.
struct Server;

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources();
        ServerConfig::new(capabilities.enable_prompts().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = json!({"type": "object", "properties": {}}).as_object().cloned().unwrap();
        let tools = ["read", "fail", "reject"].map(|it| Tool::new(it, "", schema.clone()));
        Ok(ListToolsResult::with_all_items(tools.to_vec()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let text = vec![ContentBlock::text(LONG)];
        match &*request.name {
            "read" => Ok(CallToolResult::success(text).into()),
            "fail" => Ok(CallToolResult::error(text).into()),
            _ => Err(ErrorData::invalid_params(LONG, None)),
        }
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let contents = vec![ResourceContents::text(LONG, request.uri)];
        Ok(ReadResourceResult::new(contents).into())
    }

    async fn get_prompt(
        &self,
        _: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let message = |role| PromptMessage::new(role, ContentBlock::text(LONG));
        Ok(GetPromptResult::new(vec![message(Role::User), message(Role::Assistant)]).into())
    }
}

async fn client(options: McpOptions) -> McpClient {
    let (client_end, server_end) = duplex(4096);
    tokio::spawn(async move { Server.serve(server_end).await.unwrap().waiting().await });
    McpClient::connect("memory", client_end, options).await.unwrap()
}

fn marked(tool: &str, text: &str) -> String {
    format!("<untrusted_tool_output tool=\"{tool}\">\n{text}\n</untrusted_tool_output>")
}

#[tokio::test]
async fn results_and_errors_of_tools_are_truncated_and_marked_as_untrusted() {
    let tools = client(McpOptions::new().max_text(3)).await.tools().await.unwrap();
    for (tool, status) in [("read", Status::Success), ("fail", Status::Error)] {
        let message = call_tool(tools.clone(), tool, json!({})).await.unwrap();
        assert_eq!((message.content.text(), message.status), (marked(tool, SHORTENED), status));
    }
    let message = call_tool(tools, "reject", json!({})).await.unwrap();
    let text = message.content.text();
    let start = "<untrusted_tool_output tool=\"reject\">\nMCP\n[output truncated: the first 3 of ";
    assert!(text.starts_with(start), "{text}");

    let tools = client(McpOptions::new().trusted()).await.tools().await.unwrap();
    for tool in ["read", "fail"] {
        let message = call_tool(tools.clone(), tool, json!({})).await.unwrap();
        assert_eq!(message.content.text(), LONG);
    }
}

#[tokio::test]
async fn resources_are_truncated_and_marked_as_untrusted() {
    for (options, expected) in [
        (McpOptions::new().max_text(3), marked("resources/read", SHORTENED)),
        (McpOptions::new().trusted(), LONG.to_owned()),
    ] {
        let contents = client(options).await.read_resource("memory://a").await.unwrap();
        assert_eq!(contents, [ResourceContents::text(expected, "memory://a")]);
    }
}

#[tokio::test]
async fn prompts_are_truncated_and_marked_as_untrusted() {
    let prompt = client(McpOptions::new().max_text(3)).await.prompt("greet", []).await.unwrap();
    let shortened = "äöü\n[output truncated: the first 3 of 28 characters are shown]";
    let texts = [marked("prompts/get", shortened), marked("prompts/get", "")];
    let [human, ai] = texts;
    assert_eq!(prompt, [Message::human(human), Message::ai(ai)]);
    let prompt = client(McpOptions::new().trusted()).await.prompt("greet", []).await.unwrap();
    assert_eq!(prompt, [Message::human(LONG), Message::ai(LONG)]);
}
