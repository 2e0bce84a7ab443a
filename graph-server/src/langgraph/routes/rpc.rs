//! JSON-RPC endpoints through which other programs call the graphs: MCP for tools, A2A for agents.

mod a2a;
mod envelope;
mod mcp;
mod run;

use std::sync::Arc;

use axum::Router;

use crate::langgraph::manager::Manager;

pub(super) fn routes() -> Router<Arc<Manager>> {
    Router::new().merge(mcp::routes()).merge(a2a::routes())
}
