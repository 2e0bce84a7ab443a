//! A server under load, in its own process. With `GRAPH_NIGHTLY=1`, the load is at least ten times as high. To see the
//! measured times and the memory of the server:
//!
//! ```text
//! GRAPH_NIGHTLY=1 cargo test --release -p graph-server --test load -- --nocapture --test-threads 1
//! ```
#![expect(clippy::unwrap_used, reason = "tests and their helpers may panic")]

mod killed;
mod readers;
mod reference;
#[path = "../support/webhook_receiver.rs"]
mod webhook_receiver;
mod webhooks;
