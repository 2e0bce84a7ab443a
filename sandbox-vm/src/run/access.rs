//! Defines which checkpoints of the host a running graph may access.

use std::sync::Arc;

use graph_core::remote::RemoteCall;

use crate::protocol::message::{Fault, FaultCode};

/// The checkpoints that a running graph may access.
#[derive(Clone, Debug)]
pub(crate) enum Access {
    /// All checkpoints of a thread.
    Thread(String),
    /// The checkpoints of a subgraph of the host's run, and of the graphs inside it.
    Subgraph(Arc<RemoteCall>),
}

impl Access {
    /// Returns the name of the thread, which is empty if the host's run has none.
    pub(super) fn thread(&self) -> &str {
        match self {
            Self::Thread(thread) => thread,
            Self::Subgraph(call) => call.start().thread().unwrap_or_default(),
        }
    }

    /// Returns whether the graph may access a namespace of its thread.
    pub(super) fn allows(&self, namespace: &str) -> bool {
        match self {
            Self::Thread(_) => true,
            Self::Subgraph(call) => call.owns(namespace),
        }
    }

    pub(super) fn check(&self, thread: &str, namespace: &str) -> Result<(), Fault> {
        if thread == self.thread() && self.allows(namespace) {
            return Ok(());
        }
        tracing::warn!(own = self.thread(), "a guest requested a checkpoint of another graph");
        let problem = match self {
            Self::Thread(_) => "a graph in a sandbox can access only its own thread",
            Self::Subgraph(_) => "a subgraph in a sandbox can access only its own checkpoints",
        };
        Err(Fault::new(FaultCode::Refused, problem))
    }

    /// Returns the key under which the call policy journals the answers of this run. Subgraphs of one thread have
    /// different keys, because the answers of each are dropped when it completes.
    pub(crate) fn journal_scope(&self) -> String {
        match self {
            Self::Thread(thread) => thread.clone(),
            Self::Subgraph(call) => format!("{}|{}", self.thread(), call.start().namespace()),
        }
    }

    /// Resets the idle timeout of the node that runs the graph.
    pub(super) fn heartbeat(&self) {
        if let Self::Subgraph(call) = self {
            call.heartbeat();
        }
    }
}
