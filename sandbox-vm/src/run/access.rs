//! Defines which checkpoints of the host a running graph may access.

use std::sync::Arc;

use graph_core::{
    EffectCall, EffectDecision, NodeError,
    remote::{ForeignNamespaceError, RemoteCall},
};
use serde_json::Value;

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
        self.refuse_unless(thread == self.thread() && self.allows(namespace))
    }

    /// Like [`check`](Self::check), for reading: a run that starts from an earlier checkpoint of a subgraph may read
    /// the namespace in which that checkpoint is stored.
    pub(super) fn check_read(&self, thread: &str, namespace: &str) -> Result<(), Fault> {
        let is_readable = match self {
            Self::Thread(_) => true,
            Self::Subgraph(call) => call.may_read(namespace),
        };
        self.refuse_unless(thread == self.thread() && is_readable)
    }

    fn refuse_unless(&self, is_own: bool) -> Result<(), Fault> {
        if is_own {
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

    /// Asks the interceptor of the host's run about an external call.
    pub(super) fn before_call(&self, task_path: &str, key: &str) -> Result<EffectDecision, Fault> {
        match self {
            Self::Thread(_) => Ok(EffectDecision::Execute),
            Self::Subgraph(call) => {
                call.before_call(EffectCall { task_path, key }).map_err(refused)
            }
        }
    }

    /// Reports the outcome of an external call to the interceptor of the host's run.
    pub(super) fn after_call(
        &self,
        task_path: &str,
        key: &str,
        outcome: Result<Value, Fault>,
    ) -> Result<(), Fault> {
        let Self::Subgraph(call) = self else { return Ok(()) };
        let outcome = outcome.map_err(|fault| match fault.code {
            FaultCode::Terminal => NodeError::terminal(fault.message),
            _ => NodeError::from(fault.message),
        });
        call.after_call(EffectCall { task_path, key }, outcome.as_ref()).map_err(refused)
    }

    /// Resets the idle timeout of the node that runs the graph.
    pub(super) fn heartbeat(&self) {
        if let Self::Subgraph(call) = self {
            call.heartbeat();
        }
    }
}

fn refused(error: ForeignNamespaceError) -> Fault {
    Fault::new(FaultCode::Refused, error)
}
