//! Tests of the services of LangGraph's API: store, event protocol, schedules and tool servers. They use the graphs of
//! the example `reference`.
#![expect(clippy::unwrap_used, reason = "tests and their helpers may panic")]

mod agent;
mod assistants;
mod audit;
mod audit_log;
mod auth;
mod authenticator;
mod authorize;
mod crons;
mod executor;
#[path = "../../examples/reference/graphs/mod.rs"]
mod graphs;
mod interrupts;
mod mcp_conformance;
mod moved_threads;
mod owners;
mod protocol;
mod protocol_commands;
mod protocol_socket;
mod rpc;
mod runs;
mod search;
mod search_cases;
mod server;
mod store;
mod subgraphs;
mod system;
mod threads;
mod ui;
#[path = "../support/webhook_receiver.rs"]
mod webhook_receiver;
mod webhooks;
