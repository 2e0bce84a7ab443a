//! Subgraphs that run in another process.
//!
//! A [`RemoteGraph`] is a compiled graph together with a [`RemoteRunner`]. It can be added to a graph like any other
//! subgraph: see [`subgraph`](crate::subgraph()). When a task runs it, the engine passes a [`RemoteCall`] to the runner.
//! The runner sends the call's [`RemoteStart`] to the other process, where [`CompiledGraph::run_remote`] runs the graph
//! as if it were inside the task: with the same namespace, task ids, resume values and settings. Its checkpoints and
//! events travel back and are stored and streamed by the run of the parent. Interrupts, time travel, forks and histories
//! therefore work as for a subgraph that the engine runs itself.
//!
//! `sandbox-vm` runs graphs in sandboxes this way. Two things do not reach the other process: the parent's store and its
//! cache.
//!
//! [`CompiledGraph::run_remote`]: crate::CompiledGraph::run_remote

pub(crate) mod call;
mod checkpointer;
pub(crate) mod graph;
pub(crate) mod guest;
pub(crate) mod host;
mod outcome;
mod start;

pub use crate::effects::RemoteInterceptor;

pub use self::{
    call::{ForeignNamespaceError, RemoteCall, RemoteRunner},
    graph::RemoteGraph,
    guest::{RemoteParent, RemoteRun},
    outcome::{RemoteError, RemoteOutcome},
    start::RemoteStart,
};
