//! The model interface of agents, and its implementations.

mod chat;
mod llm_model;
mod prompted_tools;
mod request;
mod scripted;
mod settings;

pub use chat::{
    ChatModel, ChunkSink, ModelProfile, ModelTool, OutputSchema, Prompt, SharedModel, ToolChoice,
};
pub(crate) use chat::{call_streaming, structured};
pub use llm_model::LlmModel;
pub use prompted_tools::PromptedTools;
pub use request::{ModelAnswer, ModelHandler, ModelRequest, RequestTool};
pub use scripted::ScriptedModel;
