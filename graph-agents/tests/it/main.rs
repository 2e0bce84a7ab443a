//! Tests of agents through their public API.
#![expect(clippy::unwrap_used, reason = "test code, including helper functions")]

mod agents;
mod chat;
mod handoffs;
mod messages;
mod middleware;
mod middleware_budget;
mod shell;
mod tool_output;
mod tool_policy;
mod tool_signatures;
mod tools;
