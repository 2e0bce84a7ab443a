//! Subgraphs and single tasks that run in another process.
//!
//! # Subgraphs
//!
//! A [`RemoteGraph`] is a compiled graph together with a [`RemoteRunner`]. It can be added to a graph like any other
//! subgraph: see [`subgraph`](crate::subgraph()). When a task runs it, the engine passes a [`RemoteCall`] to the
//! runner. The runner sends the call's [`RemoteStart`] to the other process, where [`CompiledGraph::run_remote`] runs
//! the graph as if it were inside the task: with the same namespace, task ids, resume values and settings. Its
//! checkpoints and events travel back and are stored and streamed by the run of the parent. Interrupts, time travel,
//! forks and histories therefore work as for a subgraph that the engine runs itself.
//!
//! `sandbox-vm` runs graphs in sandboxes this way. Two things do not reach the other process: the parent's store and
//! its cache.
//!
//! # Single tasks
//!
//! A [`RemoteTaskRunner`] in the [options](crate::RunOptions::task_runner) of a run selects tasks of the graph that run
//! in other processes. The engine passes it a [`RemoteTaskCall`], whose [`RemoteTaskStart`] is sent to the other
//! process. There, [`CompiledGraph::run_remote_task`] executes the node with its retries, time limits and branches. The
//! events, the results of external calls and the outcome travel back. The process of the run records the outcome and
//! folds it in task order, so the result equals that of a run in one process, with two differences: an error of the
//! node has lost its type, and a node that runs a graph itself is executed again by the process of the run.
//!
//! `graph-cluster` spreads the tasks of a step over machines this way.
//!
//! [`CompiledGraph::run_remote_task`]: crate::CompiledGraph::run_remote_task
//! [`CompiledGraph::run_remote`]: crate::CompiledGraph::run_remote

pub(crate) mod call;
mod checkpointer;
pub(crate) mod graph;
pub(crate) mod guest;
pub(crate) mod host;
mod outcome;
mod start;
pub(crate) mod task_call;
pub(crate) mod task_guest;
pub(crate) mod task_start;

pub use crate::effects::{EffectRecorder, RemoteInterceptor};

pub use self::{
    call::{ForeignNamespaceError, RemoteCall, RemoteRunner},
    graph::RemoteGraph,
    guest::{RemoteParent, RemoteRun},
    outcome::{RemoteError, RemoteOutcome},
    start::RemoteStart,
    task_call::{RemoteTaskCall, RemoteTaskOutcome, RemoteTaskRunner, TaskPlacement},
    task_guest::{RemoteTaskHost, RemoteTaskRun},
    task_start::RemoteTaskStart,
};
