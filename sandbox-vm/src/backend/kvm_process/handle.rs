//! Handle to a guest and its monitor.

use std::sync::Arc;

use async_trait::async_trait;

use super::monitor::{GUEST_ENDED, OUT_OF_MEMORY};
use crate::{
    Error,
    backend::{interface::Handle, stage_error::ERROR_PREFIX},
    limits::{ExceededLimit, Usage},
};

/// Handle to a guest. It wraps the handle to the jail in which the guest's monitor runs, and adds the monitor's report
/// about why the guest ended.
#[derive(Debug)]
pub(super) struct MonitorHandle {
    jail: Arc<dyn Handle>,
}

impl MonitorHandle {
    pub(super) fn new(jail: Arc<dyn Handle>) -> Self {
        Self { jail }
    }
}

#[async_trait]
impl Handle for MonitorHandle {
    fn backend(&self) -> &'static str {
        self.jail.backend()
    }

    async fn kill(&self) {
        self.jail.kill().await;
    }

    async fn pause(&self) -> Result<(), Error> {
        self.jail.pause().await
    }

    async fn resume(&self) -> Result<(), Error> {
        self.jail.resume().await
    }

    async fn usage(&self) -> Option<Usage> {
        self.jail.usage().await
    }

    async fn exceeded_limit(&self) -> Option<ExceededLimit> {
        self.jail.exceeded_limit().await
    }

    async fn termination_limit(&self, output: &str) -> Option<ExceededLimit> {
        if let Some(cause) = self.jail.exceeded_limit().await {
            return Some(cause);
        }
        // Lines that the guest itself has written start with another prefix.
        let is_monitor_error = |it: &&str| it.starts_with(ERROR_PREFIX) && it.contains(GUEST_ENDED);
        let error = output.lines().rfind(is_monitor_error)?;
        error.contains(OUT_OF_MEMORY).then_some(ExceededLimit::Memory)
    }

    async fn diagnostic_output(&self) -> String {
        self.jail.diagnostic_output().await
    }
}
