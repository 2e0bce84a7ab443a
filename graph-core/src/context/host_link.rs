//! The connection of a task to the process for which it runs.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use serde_json::Value;

use crate::{effects::EffectRecorder, error::NodeError};

/// Connects a task to the process of its run. Present only in a task that runs in another process.
pub(crate) struct HostLink {
    recorder: Arc<dyn EffectRecorder>,
    /// Whether only the process of the run can execute the task.
    needs_host: AtomicBool,
}

impl HostLink {
    pub(crate) fn new(recorder: Arc<dyn EffectRecorder>) -> Self {
        Self { recorder, needs_host: AtomicBool::new(false) }
    }

    /// Stores the result of an external call.
    pub(crate) async fn record_effect(&self, key: &str, result: &Value) -> Result<(), NodeError> {
        self.recorder.record_effect(key, result).await
    }

    /// Returns the error that ends the task in this process. The process of the run then executes the task itself.
    pub(crate) fn leave_to_host(&self, node: &str) -> NodeError {
        self.needs_host.store(true, Ordering::Relaxed);
        NodeError::terminal(format!(
            "node `{node}` runs a graph, which is possible only in the process that executes the run"
        ))
    }

    pub(crate) fn needs_host(&self) -> bool {
        self.needs_host.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for HostLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostLink").finish_non_exhaustive()
    }
}
