//! What a sandbox's time is counted by.

use std::time::Instant;

use crate::{limits::ExceededLimit, spec::Spec};

#[derive(Debug)]
pub(super) struct ExpiryTimer {
    /// Since when it is somebody's; a sandbox that waits in a pool is nobody's, and does not expire.
    owned_since: Option<Instant>,
    last_used: Instant,
    active_operations: usize,
}

impl ExpiryTimer {
    pub(super) fn start() -> Self {
        let now = Instant::now();
        Self { owned_since: Some(now), last_used: now, active_operations: 0 }
    }

    /// Counts nothing until it is started again.
    pub(super) fn stop(&mut self) {
        self.owned_since = None;
    }

    /// Counts from now.
    pub(super) fn restart(&mut self) {
        self.owned_since = Some(Instant::now());
        self.touch();
    }

    /// Somebody has used it.
    pub(super) fn touch(&mut self) {
        self.last_used = Instant::now();
    }

    /// Something is under way, until it is [finished](Self::finish).
    pub(super) fn begin(&mut self) {
        self.active_operations += 1;
    }

    pub(super) fn finish(&mut self) {
        self.active_operations = self.active_operations.saturating_sub(1);
        self.touch();
    }

    /// The limit of time that has passed, if one has.
    pub(super) fn expired_limit(&self, spec: &Spec) -> Option<ExceededLimit> {
        if self.owned_since?.elapsed() >= spec.lifetime {
            return Some(ExceededLimit::Lifetime);
        }
        let is_idle = self.active_operations == 0 && self.last_used.elapsed() >= spec.limits.idle;
        is_idle.then_some(ExceededLimit::Idle)
    }
}
