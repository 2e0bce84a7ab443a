//! The time to live of a thread.

use std::time::SystemTime;

use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;
use uuid::Uuid;

use super::body::or_default;
use crate::langgraph::{
    error::{ApiError, ApiResult},
    records::{ThreadTtl, TtlStrategy},
};

/// Longest time to live: 10 years.
const MAX_MINUTES: f64 = 10.0 * 366.0 * 24.0 * 60.0;

/// A request to set the time to live of a thread.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::langgraph) struct TtlRequest {
    /// Minutes until the thread expires.
    ttl: f64,
    #[serde(default, deserialize_with = "or_default")]
    strategy: TtlStrategy,
}

impl TtlRequest {
    /// Returns the time to live of a thread, starting now.
    pub(in crate::langgraph) fn start(self, thread_id: Uuid) -> ApiResult<ThreadTtl> {
        if !(self.ttl > 0.0 && self.ttl <= MAX_MINUTES) {
            return Err(ApiError::invalid(format!(
                "`ttl` is {}; it must be more than 0 and at most {MAX_MINUTES} minutes",
                self.ttl
            )));
        }
        let now: DateTime<Utc> = SystemTime::now().into();
        // The limit above keeps the number of milliseconds within the range of an integer.
        let expires_at = now + TimeDelta::milliseconds((self.ttl * 60_000.0) as i64);
        Ok(ThreadTtl { thread_id, strategy: self.strategy, ttl_minutes: self.ttl, expires_at })
    }
}
