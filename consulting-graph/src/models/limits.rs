//! Limits of calls to providers.

use llm::{Backoff, Limits, Timeouts};

/// Size limits of responses, which are far above the token limits of the agents.
pub const RESPONSE_LIMITS: Limits = Limits { body_bytes: 4 << 20, event_bytes: 1 << 20 };

/// Minimum length of API keys that are redacted, in bytes. A shorter key is not a secret, and occurs in ordinary text.
pub(super) const MIN_REDACTED_KEY: usize = 8;

/// Time limits and retries of calls. They do not change the result of a run that completes.
#[derive(Debug, Clone, Default)]
pub struct CallLimits {
    /// Time limits of calls to providers.
    pub timeouts: Timeouts,
    /// Number of retries of failed calls, and the waits before them.
    pub backoff: Backoff,
}
