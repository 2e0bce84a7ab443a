//! Tests of agents through their public API.
#![expect(clippy::unwrap_used, reason = "test code, including helper functions")]

mod agents;
mod chat;
mod chat_stream;
mod composition;
mod embeddings;
mod forks;
mod handoffs;
mod malformed_calls;
mod messages;
mod middleware;
mod middleware_budget;
mod model_options;
mod record_replay;
mod several_agents;
mod shell;
mod tool_output;
mod tool_policy;
mod tool_signatures;
mod tools;
mod trim;
