//! Measures a program's CPU time on the host, for guests whose own kernel measures it wrongly.

use std::{future::pending, time::Duration};

use crate::{Sandbox, limits::ExecLimits, report::IsolationLevel};

/// Interval at which the CPU time is compared with the limit.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(50);

/// Measures the CPU time that a sandbox has used since a program was started. Inactive if the guest measures the
/// time itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct HostCpuClock(Option<Started>);

#[derive(Clone, Copy, Debug)]
struct Started {
    /// CPU time of the sandbox when the program was started.
    before: Duration,
    limit: Duration,
}

impl HostCpuClock {
    /// Starts to measure if the guest runs on a user-space kernel. Such a kernel also counts the time in which a
    /// program waits for a processor, so programs would exceed the limit without having used the time. The host then
    /// enforces the limit instead, and the limit that the guest gets is raised.
    ///
    /// The host's measurement covers all programs in the sandbox, as the guest's does, and also the user-space kernel
    /// itself.
    pub(super) async fn start(sandbox: &Sandbox, limits: &mut ExecLimits) -> Self {
        if sandbox.level() != IsolationLevel::Kernel {
            return Self(None);
        }
        let Some(usage) = sandbox.usage().await else { return Self(None) };
        let limit = std::mem::replace(&mut limits.cpu_time, Duration::MAX);
        Self(Some(Started { before: usage.cpu, limit }))
    }

    /// Returns the CPU time used so far, or `None` if the guest measures it.
    pub(super) async fn elapsed(self, sandbox: &Sandbox) -> Option<Duration> {
        let started = self.0?;
        Some(sandbox.usage().await?.cpu.saturating_sub(started.before))
    }

    /// Returns when the limit is exceeded, or never if the guest measures the time.
    pub(super) async fn until_exceeded(self, sandbox: &Sandbox) {
        let Some(started) = self.0 else { return pending().await };
        loop {
            tokio::time::sleep(SAMPLE_INTERVAL).await;
            if self.elapsed(sandbox).await.is_some_and(|it| it > started.limit) {
                return;
            }
        }
    }
}
