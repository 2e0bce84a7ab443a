//! Several replicas of a server, each in its own process, that share a PostgreSQL database.
#![expect(clippy::unwrap_used, reason = "tests and their helpers may panic")]

mod crons;
mod frozen;
mod kill;
mod process;
mod runs;
mod search;
#[path = "../langgraph_services/search_cases.rs"]
mod search_cases;
mod streams;
mod tls;
#[path = "../support/webhook_receiver.rs"]
mod webhook_receiver;
mod webhooks;
