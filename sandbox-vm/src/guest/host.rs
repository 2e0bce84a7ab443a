//! The host's services for graphs that run in the guest.

use std::{path::Path, sync::Arc};

use graph_core::{Checkpointer, Context, NodeError, remote::RemoteParent};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::sync::mpsc;

use super::{
    connection::{Connection, FlushAck},
    interceptor::HostInterceptor,
    saver::HostSaver,
};
use crate::protocol::message::{ExternalCall, Fault, FaultCode, GraphEvent, HostCall};

/// Lets a graph in the guest store its checkpoints on the host and make external calls through it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Host {
    connection: Connection,
    run: u64,
    thread: Arc<str>,
    workspace: Arc<Path>,
}

impl Host {
    pub(super) fn new(connection: Connection, run: u64, thread: String, workspace: &Path) -> Self {
        Self { connection, run, thread: Arc::from(thread), workspace: Arc::from(workspace) }
    }

    /// Returns the directory that contains the sandbox's files.
    pub fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// Sends an event of the run to the host, once the host has granted credit for it.
    pub(super) async fn send_event(&self, event: &GraphEvent) -> Result<(), Fault> {
        self.connection.send_event(self.run, event).await
    }

    /// Returns the receiver of the run's flush requests. Every host call first sends a flush request; see
    /// [`Connection::flush_requests`].
    pub(super) fn flush_requests(&self) -> mpsc::UnboundedReceiver<FlushAck> {
        self.connection.flush_requests(self.run)
    }

    /// Returns the services of the host's run, of which this run is a subgraph.
    pub(super) fn parent(&self) -> RemoteParent {
        let interceptor = HostInterceptor::new(self.connection.clone(), self.run);
        RemoteParent {
            checkpointer: self.checkpointer(),
            interceptor: Arc::new(interceptor),
            control: self.connection.control(self.run),
        }
    }

    /// Reports to the host that the run makes progress.
    pub(super) async fn heartbeat(&self) {
        // A failure means that the host is gone, so the run is about to end.
        let _: Result<(), Fault> = self.connection.call(self.run, HostCall::Heartbeat).await;
    }

    /// Returns the run's checkpointer, which stores checkpoints on the host and can access only the run's own thread.
    pub fn checkpointer(&self) -> Arc<dyn Checkpointer> {
        Arc::new(HostSaver::new(self.connection.clone(), self.run, self.thread.clone()))
    }

    /// Asks the host to make an external call. The call is made only once: if the task is repeated, it gets the
    /// journaled answer.
    ///
    /// The host decides which kinds of calls are allowed, and how many. A refused call is a permanent failure. Two
    /// calls of the same kind in one task need different keys, as with [`Context::task`].
    ///
    /// ```
    /// use graph_core::{Context, NodeError};
    /// use sandbox_vm::guest::Host;
    /// use serde_json::json;
    ///
    /// async fn argue(round: u32, cx: &Context<Host>) -> Result<String, NodeError> {
    ///     let prompt = json!({ "prompt": format!("Round {round}: argue.") });
    ///     cx.deps().call(cx, "llm.chat", round, prompt).await
    /// }
    /// ```
    pub async fn call<T, C>(
        &self,
        cx: &Context<C>,
        kind: &str,
        key: impl Serialize,
        request: impl Serialize,
    ) -> Result<T, NodeError>
    where
        T: Serialize + DeserializeOwned,
        C: Send + Sync + 'static,
    {
        let key = serde_json::to_value(key).map_err(NodeError::terminal)?;
        let call = ExternalCall {
            kind: kind.to_owned(),
            request: serde_json::to_value(request).map_err(NodeError::terminal)?,
            // This is the key under which the task's journal stores the call.
            key: format!("{kind}:{key}"),
            task: cx.task_id(),
            node: cx.node().to_owned(),
            namespace: cx.namespace().to_owned(),
            checkpoint: cx.checkpoint(),
        };
        cx.task(kind, &key, async {
            // The host's journal identifies the call by its task. If the guest dies now, its replacement must run the
            // same task again, which requires that the task's checkpoint is stored.
            cx.flush_checkpoints().await?;
            let answer: Result<Value, Fault> =
                self.connection.call(self.run, HostCall::External(Box::new(call))).await;
            serde_json::from_value(answer.map_err(node_error)?).map_err(NodeError::terminal)
        })
        .await
    }
}

/// The error returned when an external call fails or is refused.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
struct ExternalCallError(String);

fn node_error(fault: Fault) -> NodeError {
    let error = ExternalCallError(fault.message);
    match fault.code {
        FaultCode::Refused | FaultCode::Terminal => NodeError::terminal(error),
        _ => error.into(),
    }
}
