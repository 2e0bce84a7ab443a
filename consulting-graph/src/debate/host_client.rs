//! The debate's connection to its host.

use std::{fmt, path::Path, sync::Arc};

use async_trait::async_trait;
use graph_core::{Context, NodeError};
use sandbox_vm::guest::Host;

use crate::call::{CallOutcome, LLM, ModelCall};

/// Makes model calls through the host of the guest and locates the guest's workspace. Cloning is cheap.
#[derive(Clone)]
pub struct HostClient(Arc<dyn HostApi>);

#[async_trait]
trait HostApi: Send + Sync {
    async fn call(
        &self,
        cx: &Context<HostClient>,
        key: &str,
        call: ModelCall,
    ) -> Result<CallOutcome, NodeError>;

    fn workspace(&self) -> &Path;
}

impl HostClient {
    /// Creates a client of the host that runs the guest.
    pub fn new(host: &Host) -> Self {
        Self(Arc::new(host.clone()))
    }

    /// Creates a client without a host. A graph with this client can read and edit the threads of debates, but cannot
    /// run them.
    pub(crate) fn disconnected() -> Self {
        Self(Arc::new(NoHost))
    }

    /// Makes a model call through the host. The answer is stored in the journal of the thread. A node that runs again
    /// after a crash reads the answer from the journal and does not repeat the call.
    pub(super) async fn call(
        &self,
        cx: &Context<Self>,
        key: &str,
        call: ModelCall,
    ) -> Result<CallOutcome, NodeError> {
        self.0.call(cx, key, call).await
    }

    /// Returns the workspace, which is the directory for files inside the sandbox.
    pub(super) fn workspace(&self) -> &Path {
        self.0.workspace()
    }
}

#[async_trait]
impl HostApi for Host {
    async fn call(
        &self,
        cx: &Context<HostClient>,
        key: &str,
        call: ModelCall,
    ) -> Result<CallOutcome, NodeError> {
        self.call(cx, LLM, key, call).await
    }

    fn workspace(&self) -> &Path {
        self.workspace()
    }
}

struct NoHost;

#[async_trait]
impl HostApi for NoHost {
    async fn call(
        &self,
        _: &Context<HostClient>,
        _: &str,
        _: ModelCall,
    ) -> Result<CallOutcome, NodeError> {
        Err(NodeError::terminal("a debate can only run in a sandbox"))
    }

    fn workspace(&self) -> &Path {
        Path::new("")
    }
}

impl fmt::Debug for HostClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HostClient")
    }
}
