//! Runs a compiled graph once, on a thread, or as a stream of events.

pub(crate) mod driven;
pub(crate) mod future;
mod graph;
pub(crate) mod history;
pub(crate) mod input;
pub(crate) mod outcome;
mod reader;
mod request;
pub(crate) mod stream;
pub(crate) mod subgraph_thread;
pub(crate) mod thread;
