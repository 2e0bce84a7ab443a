//! Tests of the services of LangGraph's API: store, event protocol, schedules and tool servers. They use the graphs of
//! the example `reference`.
#![expect(clippy::unwrap_used, reason = "tests and their helpers may panic")]

mod crons;
mod protocol;
#[path = "../../examples/reference"]
mod reference {
    pub(crate) mod graphs;
}
mod rpc;
mod server;
mod store;
mod webhooks;
