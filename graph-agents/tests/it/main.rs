//! Tests of agents through their public API.

mod agents;
mod chat;
mod handoffs;
mod messages;
mod tool_policy;
mod tools;
