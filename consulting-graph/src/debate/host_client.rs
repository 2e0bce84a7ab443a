//! The debate's connection to its host.

use std::path::Path;

use graph_core::{Context, NodeError};
use sandbox_vm::guest::Host;

use crate::call::{CallOutcome, LLM, ModelCall};

/// Makes model calls through the host of the guest and locates the guest's workspace. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct HostClient(Host);

impl HostClient {
    /// Creates a client of the host that runs the guest.
    pub fn new(host: &Host) -> Self {
        Self(host.clone())
    }

    /// Makes a model call through the host. The answer is stored in the journal of the thread. A node that runs again
    /// after a crash reads the answer from the journal and does not repeat the call.
    pub(super) async fn call(
        &self,
        cx: &Context<Self>,
        key: &str,
        call: ModelCall,
    ) -> Result<CallOutcome, NodeError> {
        self.0.call(cx, LLM, key, call).await
    }

    /// Returns the workspace, which is the directory for files inside the sandbox.
    pub(super) fn workspace(&self) -> &Path {
        self.0.workspace()
    }
}
