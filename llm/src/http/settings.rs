//! Time and size limits of HTTP calls.

use std::time::Duration;

/// Time limits for the phases of a call.
///
/// The defaults suit reasoning models, which may send nothing for minutes. Interactive applications should use shorter
/// limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Maximum time to connect, including the TLS handshake. 10 seconds by default.
    pub connect: Duration,
    /// Maximum time from sending the request to the first byte of the response body. 5 minutes by default, because
    /// a response that is not streamed arrives only when it is complete.
    pub first_byte: Duration,
    /// Maximum time between two pieces of the response. 2 minutes by default.
    pub idle: Duration,
    /// Maximum time for the whole call. 15 minutes by default.
    pub total: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(5 * 60),
            idle: Duration::from_secs(2 * 60),
            total: Duration::from_secs(15 * 60),
        }
    }
}

/// Size limits of a response. The defaults are far above what any model produces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of the response body, in bytes. 64 MiB by default.
    pub body_bytes: usize,
    /// Maximum size of one event in a streamed response, in bytes. 8 MiB by default.
    pub event_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { body_bytes: 64 << 20, event_bytes: 8 << 20 }
    }
}
