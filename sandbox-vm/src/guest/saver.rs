//! The guest's checkpointer, which forwards operations to the host's checkpointer.

use std::sync::Arc;

use async_trait::async_trait;
use graph_core::checkpoint::{
    Checkpoint, CheckpointError, CheckpointWrite, Checkpointer, HistoryQuery, Keep, Lease, Lookup,
    PruneStats,
};

use super::connection::Connection;
use crate::protocol::message::{Fault, FaultCode, HostCall};

/// Forwards checkpoint operations to the host. Refuses operations that could affect threads other than the run's own.
#[derive(Debug)]
pub(super) struct HostSaver {
    connection: Connection,
    run: u64,
    thread: Arc<str>,
}

impl HostSaver {
    pub(super) fn new(connection: Connection, run: u64, thread: Arc<str>) -> Self {
        Self { connection, run, thread }
    }

    async fn call<T: serde::de::DeserializeOwned>(
        &self,
        call: HostCall,
    ) -> Result<T, CheckpointError> {
        self.connection.call(self.run, call).await.map_err(|fault| self.error(fault))
    }

    fn error(&self, fault: Fault) -> CheckpointError {
        let thread = self.thread.to_string();
        match fault.code {
            FaultCode::Busy => CheckpointError::Busy { thread },
            FaultCode::HeadMoved => CheckpointError::HeadMoved { thread },
            _ => storage_error(fault.message),
        }
    }
}

fn storage_error(problem: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> CheckpointError {
    CheckpointError::Storage(Arc::from(problem.into()))
}

/// Returns the error for operations that are refused because they could affect threads other than the run's own.
fn own_thread_only<T>() -> Result<T, CheckpointError> {
    Err(storage_error("a graph in a sandbox can access only its own thread"))
}

#[async_trait]
impl Checkpointer for HostSaver {
    async fn lease(&self, _: &str) -> Result<Lease, CheckpointError> {
        // The host holds the lease for the duration of the run.
        let () = self.call(HostCall::Lease).await?;
        Ok(Lease::new(()))
    }

    async fn write(&self, writes: Vec<CheckpointWrite>) -> Result<(), CheckpointError> {
        self.call(HostCall::Store(writes)).await
    }

    async fn get(&self, at: &Lookup) -> Result<Option<Checkpoint>, CheckpointError> {
        self.call(HostCall::Get(at.clone())).await
    }

    async fn list(&self, query: &HistoryQuery) -> Result<Vec<Checkpoint>, CheckpointError> {
        // The host returns a bounded number of checkpoints per call, so fetch them page by page.
        let mut next = query.clone();
        let mut all: Vec<Checkpoint> = Vec::new();
        loop {
            next.limit = query.limit.map(|it| it.saturating_sub(all.len()));
            if next.limit == Some(0) {
                return Ok(all);
            }
            let page: Vec<Checkpoint> = self.call(HostCall::List(next.clone())).await?;
            let Some(last) = page.last() else { return Ok(all) };
            next.before = Some(last.key.id);
            all.extend(page);
        }
    }

    async fn namespaces(&self, _: &str) -> Result<Vec<(String, usize)>, CheckpointError> {
        self.call(HostCall::Namespaces).await
    }

    async fn threads(&self) -> Result<Vec<String>, CheckpointError> {
        Ok(vec![self.thread.to_string()])
    }

    async fn delete_thread(&self, _: &str) -> Result<(), CheckpointError> {
        own_thread_only()
    }

    async fn delete_runs(&self, _: &[String]) -> Result<(), CheckpointError> {
        own_thread_only()
    }

    async fn copy_thread(&self, _: &str, _: &str) -> Result<(), CheckpointError> {
        own_thread_only()
    }

    async fn prune(&self, _: &[String], _: Keep) -> Result<PruneStats, CheckpointError> {
        own_thread_only()
    }
}
