//! An agent as an MCP server.

use std::sync::Arc;

use graph_core::RunError;
use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
        ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
    },
    service::RequestContext,
    transport::{
        stdio,
        streamable_http_server::{
            StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
        },
    },
};
use serde_json::{Value, json};

use super::error::McpError;
use crate::{CompiledAgent, id::new_id};

/// Offers an agent as the only tool of an MCP server.
///
/// The tool has one argument, `message`, and returns the text of the agent's last message. Each call is a new
/// conversation. If the run is interrupted to ask a person, the call fails with the question, because the caller may be
/// another model.
///
/// ```
/// use graph_agents::{Agent, AiMessage, ScriptedModel, mcp::AgentServer};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let agent = Agent::new(ScriptedModel::new([AiMessage::new("Rain.")])).name("weather").compile()?;
/// let server = AgentServer::new(agent, "Answers questions about the weather.");
/// // Over standard input and output: `server.serve_stdio().await?`. Over HTTP, at the path `/mcp`:
/// let router = server.router();
/// # let _ = router;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct AgentServer {
    agent: CompiledAgent,
    description: String,
    allowed_hosts: Vec<String>,
}

impl AgentServer {
    /// Creates a server. The tool has the name of the agent, or `agent` if the agent has no name.
    pub fn new(agent: CompiledAgent, description: impl Into<String>) -> Self {
        let allowed_hosts = StreamableHttpServerConfig::default().allowed_hosts;
        Self { agent, description: description.into(), allowed_hosts }
    }

    /// Sets the values of the HTTP header `Host` that are accepted. By default, only the names of this machine are
    /// accepted, to protect the server from DNS rebinding.
    pub fn allowed_hosts<H: Into<String>>(mut self, hosts: impl IntoIterator<Item = H>) -> Self {
        self.allowed_hosts = hosts.into_iter().map(Into::into).collect();
        self
    }

    /// Serves one client over standard input and output. Returns when the client disconnects.
    pub async fn serve_stdio(self) -> Result<(), McpError> {
        let running = self.serve(stdio()).await;
        let running = running.map_err(|error| McpError::Serve(error.to_string()))?;
        running.waiting().await.map_err(|error| McpError::Serve(error.to_string()))?;
        Ok(())
    }

    /// Returns routes that serve clients over streamable HTTP at `/mcp`, without access control.
    pub fn router(self) -> axum::Router {
        let config =
            StreamableHttpServerConfig::default().with_allowed_hosts(self.allowed_hosts.clone());
        let sessions = Arc::new(LocalSessionManager::default());
        let service = StreamableHttpService::new(move || Ok(self.clone()), sessions, config);
        axum::Router::new().route_service("/mcp", service)
    }

    fn tool_name(&self) -> &str {
        self.agent.name().unwrap_or("agent")
    }

    fn definition(&self) -> Tool {
        let schema = json!({
            "type": "object",
            "properties": {"message": {"type": "string", "description": "Message to the agent."}},
            "required": ["message"],
        });
        let schema = schema.as_object().cloned().unwrap_or_default();
        Tool::new(self.tool_name().to_owned(), self.description.clone(), schema)
    }

    async fn ask(&self, message: &str) -> CallToolResult {
        let result = |text| vec![ContentBlock::text(text)];
        let outcome = match self.agent.conversation(new_id()).send(message).await {
            Err(RunError::NoCheckpointer) => self.agent.run(message).await,
            outcome => outcome,
        };
        match outcome {
            Err(error) => CallToolResult::error(result(format!("the agent failed: {error}"))),
            Ok(outcome) => match outcome.interrupts.first() {
                None => CallToolResult::success(result(outcome.text())),
                Some(question) => CallToolResult::error(result(format!(
                    "the agent cannot continue without a person's answer to: {}",
                    question.value
                ))),
            },
        }
    }
}

impl ServerHandler for AgentServer {
    fn get_info(&self) -> ServerConfig {
        let name = Implementation::new(self.tool_name(), env!("CARGO_PKG_VERSION"));
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(name)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(vec![self.definition()]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if request.name != self.tool_name() {
            let text = format!("unknown tool `{}`; call `{}`", request.name, self.tool_name());
            return Err(ErrorData::invalid_params(text, None));
        }
        let arguments = request.arguments.unwrap_or_default();
        let Some(message) = arguments.get("message").and_then(Value::as_str) else {
            let text =
                "argument `message` is missing or not a text; set it to the message to the agent";
            return Err(ErrorData::invalid_params(text, None));
        };
        tokio::select! {
            biased;
            answer = self.ask(message) => Ok(answer.into()),
            () = context.ct.cancelled() => {
                Err(ErrorData::internal_error("the client cancelled the call", None))
            }
        }
    }
}
