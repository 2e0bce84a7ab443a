//! What a call over HTTP may take: time and bytes.

use std::time::Duration;

/// How long the phases of a call may take.
///
/// The defaults suit reasoning models, which may be silent for minutes. An application that streams to
/// somebody who waits wants less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the connection stands, encryption included. Ten seconds.
    pub connect: Duration,
    /// From the request to the first byte of the answer's body. Five minutes: an answer that is not
    /// streamed begins when it is complete.
    pub first_byte: Duration,
    /// Between two pieces of the answer. Two minutes.
    pub idle: Duration,
    /// For all of it. Fifteen minutes.
    pub whole: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(5 * 60),
            idle: Duration::from_secs(2 * 60),
            whole: Duration::from_secs(15 * 60),
        }
    }
}

/// How large an answer may be. The defaults are far above what any model writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// All of it, in bytes. 64 MiB.
    pub body_bytes: usize,
    /// One event of a streamed answer, in bytes. 8 MiB.
    pub event_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { body_bytes: 64 << 20, event_bytes: 8 << 20 }
    }
}
