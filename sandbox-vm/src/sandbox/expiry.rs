//! Tracks the lifetime and idle time of a sandbox.

use tokio::time::Instant;

use crate::{limits::ExceededLimit, spec::Spec};

#[derive(Debug)]
pub(super) struct ExpiryTimer {
    /// Time at which the lifetime started. It is `None` for a sandbox that is waiting in a pool, which does not expire.
    owned_since: Option<Instant>,
    last_used: Instant,
    active_operations: usize,
}

impl ExpiryTimer {
    pub(super) fn start() -> Self {
        let now = Instant::now();
        Self { owned_since: Some(now), last_used: now, active_operations: 0 }
    }

    /// Stops counting until [`restart`](Self::restart) is called.
    pub(super) fn stop(&mut self) {
        self.owned_since = None;
    }

    /// Starts counting the lifetime and the idle time from now.
    pub(super) fn restart(&mut self) {
        self.owned_since = Some(Instant::now());
        self.touch();
    }

    pub(super) fn touch(&mut self) {
        self.last_used = Instant::now();
    }

    /// Returns whether a single operation is in progress.
    pub(super) fn has_single_operation(&self) -> bool {
        self.active_operations == 1
    }

    /// Marks an operation as in progress until [`finish`](Self::finish) is called.
    pub(super) fn begin(&mut self) {
        self.active_operations += 1;
    }

    pub(super) fn finish(&mut self) {
        self.active_operations = self.active_operations.saturating_sub(1);
        self.touch();
    }

    /// Returns the time limit that was exceeded, if any.
    pub(super) fn expired_limit(&self, spec: &Spec) -> Option<ExceededLimit> {
        if self.owned_since?.elapsed() >= spec.lifetime {
            return Some(ExceededLimit::Lifetime);
        }
        let is_idle = self.active_operations == 0 && self.last_used.elapsed() >= spec.limits.idle;
        is_idle.then_some(ExceededLimit::Idle)
    }
}
