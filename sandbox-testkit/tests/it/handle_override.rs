//! Overrides individual operations of a guest's handle.

use std::{fmt::Debug, path::PathBuf, sync::Arc};

use async_trait::async_trait;
use sandbox_vm::{
    Error, ExceededLimit, Usage,
    backend::{Guest, Handle, Snapshot},
};

/// The operations that can be overridden. By default, each one calls the original handle.
#[async_trait]
pub(crate) trait HandleOverride: Debug + Send + Sync + 'static {
    async fn kill(&self, guest: &dyn Handle) {
        guest.kill().await;
    }

    async fn snapshot(&self, guest: &dyn Handle, dir: PathBuf) -> Result<Snapshot, Error> {
        guest.snapshot(dir).await
    }
}

/// Replaces a guest's handle with one that uses the overridden operations.
pub(crate) fn with(handle_override: impl HandleOverride, guest: Guest) -> Guest {
    let Guest { channel, handle } = guest;
    Guest { channel, handle: Arc::new(OverriddenHandle { handle_override, handle }) }
}

#[derive(Debug)]
struct OverriddenHandle<H> {
    handle_override: H,
    handle: Arc<dyn Handle>,
}

#[async_trait]
impl<H: HandleOverride> Handle for OverriddenHandle<H> {
    fn backend(&self) -> &'static str {
        self.handle.backend()
    }

    async fn kill(&self) {
        self.handle_override.kill(&*self.handle).await;
    }

    async fn pause(&self) -> Result<(), Error> {
        self.handle.pause().await
    }

    async fn resume(&self) -> Result<(), Error> {
        self.handle.resume().await
    }

    async fn usage(&self) -> Option<Usage> {
        self.handle.usage().await
    }

    async fn exceeded_limit(&self) -> Option<ExceededLimit> {
        self.handle.exceeded_limit().await
    }

    async fn termination_limit(&self, output: &str) -> Option<ExceededLimit> {
        self.handle.termination_limit(output).await
    }

    async fn diagnostic_output(&self) -> String {
        self.handle.diagnostic_output().await
    }

    async fn snapshot(&self, dir: PathBuf) -> Result<Snapshot, Error> {
        self.handle_override.snapshot(&*self.handle, dir).await
    }
}
