//! The guest's effect interceptor, which forwards external calls to the interceptor of the host's run.

use async_trait::async_trait;
use graph_core::{EffectCall, EffectDecision, NodeError, remote::RemoteInterceptor};
use serde_json::Value;

use super::connection::Connection;
use crate::protocol::message::{Fault, FaultCode, HostCall};

/// Forwards the external calls of a run to the interceptor of the host's run.
#[derive(Debug)]
pub(super) struct HostInterceptor {
    connection: Connection,
    run: u64,
}

impl HostInterceptor {
    pub(super) fn new(connection: Connection, run: u64) -> Self {
        Self { connection, run }
    }
}

#[async_trait]
impl RemoteInterceptor for HostInterceptor {
    async fn before_call(&self, call: EffectCall<'_>) -> Result<EffectDecision, NodeError> {
        let (task_path, key) = (call.task_path.to_owned(), call.key.to_owned());
        let decision = self.connection.call(self.run, HostCall::BeforeCall { task_path, key });
        decision.await.map_err(|fault| NodeError::terminal(fault.message))
    }

    async fn after_call(&self, call: EffectCall<'_>, outcome: Result<&Value, &NodeError>) {
        let (task_path, key) = (call.task_path.to_owned(), call.key.to_owned());
        let outcome = match outcome {
            Ok(value) => Ok(value.clone()),
            Err(error) if error.is_terminal() => Err(Fault::new(FaultCode::Terminal, error)),
            Err(error) => Err(Fault::new(FaultCode::Failed, error)),
        };
        let call = HostCall::AfterCall { task_path, key, outcome };
        // A failure means that the host is gone or that the storage quota is exhausted, so the run is about to end.
        let _: Result<(), Fault> = self.connection.call(self.run, call).await;
    }
}
