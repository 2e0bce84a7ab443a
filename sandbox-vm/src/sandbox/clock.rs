//! What a sandbox's time is counted by.

use std::time::Instant;

use crate::{limits::Cause, spec::Spec};

#[derive(Debug)]
pub(super) struct Clock {
    /// Since when it is somebody's; a sandbox that waits in a pool is nobody's, and does not expire.
    since: Option<Instant>,
    last_used: Instant,
    under_way: usize,
}

impl Clock {
    pub(super) fn start() -> Self {
        let now = Instant::now();
        Self { since: Some(now), last_used: now, under_way: 0 }
    }

    /// Counts nothing until it is started again.
    pub(super) fn stop(&mut self) {
        self.since = None;
    }

    /// Counts from now.
    pub(super) fn start_again(&mut self) {
        self.since = Some(Instant::now());
        self.touch();
    }

    /// Somebody has used it.
    pub(super) fn touch(&mut self) {
        self.last_used = Instant::now();
    }

    /// Something is under way, until it is [finished](Self::finish).
    pub(super) fn begin(&mut self) {
        self.under_way += 1;
    }

    pub(super) fn finish(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
        self.touch();
    }

    /// The limit of time that has passed, if one has.
    pub(super) fn passed(&self, spec: &Spec) -> Option<Cause> {
        if self.since?.elapsed() >= spec.lifetime {
            return Some(Cause::Lifetime);
        }
        let is_idle = self.under_way == 0 && self.last_used.elapsed() >= spec.limits.idle;
        is_idle.then_some(Cause::Idle)
    }
}
