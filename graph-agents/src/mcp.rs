//! The Model Context Protocol: tools, resources and prompts of other programs, and agents as MCP servers.
//!
//! An [`McpClient`] connects to a server that runs as a child process or supports streamable HTTP. The server's tools
//! become ordinary [`Tool`](crate::Tool)s.
//!
//! ```no_run
//! use graph_agents::{Agent, ScriptedModel, AiMessage, mcp::{McpClient, McpOptions}};
//! use tokio::process::Command;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let model = ScriptedModel::new([AiMessage::new("noon")]);
//! let mut command = Command::new("python3");
//! command.args(["-m", "mcp_server_time"]);
//! let clock = McpClient::stdio(command, McpOptions::new()).await?;
//! let agent = Agent::new(model).tools(clock.tools().await?).compile()?;
//! agent.run("What time is it in Tokyo?").await?;
//! # Ok(()) }
//! ```
//!
//! An [`AgentServer`] offers a whole agent as one tool of an MCP server.
//!
//! Servers are not trusted. Names, descriptions, results, resources and prompts have maximum sizes, a call ends after a
//! timeout, text from the server is marked as untrusted data, and each tool's description instructs the model to treat
//! results as data.

mod client;
mod content;
mod error;
mod options;
mod server;
mod tools;

pub use rmcp::model::{Prompt, PromptArgument, Resource, ResourceContents};

pub use client::McpClient;
pub use error::McpError;
pub use options::McpOptions;
pub use server::AgentServer;
