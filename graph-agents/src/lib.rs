//! Agents on `graph-core`: messages, tools, middleware, structured output and several agents.
//!
//! An [`Agent`] is a model in a loop with tools. It compiles to an ordinary graph with the shape of LangChain's
//! `create_agent`, so everything that graphs can do works for agents: checkpoints, interrupts, streams, drawings,
//! subgraphs.
//!
//! - [`Message`] and [`add_messages`]: a conversation with ids, and its reducer [`Messages`].
//! - [`Tool`], the attribute macro `#[tool]`, and [`ToolNode`], which executes calls in parallel.
//! - [`middleware`]: hooks before and after the model and around model and tool calls, and ready-made middleware.
//! - [`ResponseFormat`]: structured responses by provider or by tool.
#![forbid(unsafe_code)]

pub mod agent;
mod command;
mod error;
mod id;
pub mod message;
pub mod middleware;
pub mod model;
pub mod multi;
pub mod notation;
pub mod response;
pub mod state;
pub mod tool;
pub mod tool_node;

pub use agent::{Agent, AgentOutcome, CompiledAgent, Conversation};
pub use command::{Command, CommandUpdate, JumpTo, Update};
pub use error::{AgentError, error_name};
pub use message::{
    AiMessage, Content, InvalidToolCall, Message, Messages, MessagesState, MessagesStateUpdate,
    NewMessages, REMOVE_ALL, Status, TextMessage, TokenCounter, ToolCall, ToolMessage, TrimOptions,
    add_messages, count_tokens_approximately, message_from_json, messages_field,
    messages_from_json, pretty, trim_messages,
};
pub use model::{ChatModel, LlmModel, ScriptedModel};
pub use response::ResponseFormat;
pub use state::{AgentState, StateField};
pub use tool::{ExceptionAnswer, ProviderTool, Tool, ToolOutput, ToolRuntime};
pub use tool_node::{ToolErrors, ToolNode, ToolResults, tools_condition};
