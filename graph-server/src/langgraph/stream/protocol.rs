//! The event protocol of newer clients: all events of a thread in one stream, with content blocks instead of message
//! chunks, and the lifecycle of the graph and its subgraphs.
//!
//! Every stream encodes the buffered events of a thread from their beginning, so an event has the same number in every
//! stream. A filter then drops the events that the client did not select.

mod agent_tree;
mod event;
mod filter;
mod messages;
mod run_encoder;

pub(in crate::langgraph) use self::{
    agent_tree::AgentTree,
    event::{Content as ProtocolContent, ProtocolEvent, last_number},
    filter::Filter,
    run_encoder::RunEncoder,
};
