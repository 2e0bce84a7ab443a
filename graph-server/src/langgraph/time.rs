//! Timestamps on the wire.

use std::time::SystemTime;

use chrono::{DateTime, SecondsFormat, Utc};

/// Formats a time as RFC 3339, with microseconds.
pub(super) fn wire_time(at: SystemTime) -> String {
    DateTime::<Utc>::from(at).to_rfc3339_opts(SecondsFormat::Micros, false)
}

/// Returns the current time as RFC 3339.
pub(super) fn now() -> String {
    wire_time(SystemTime::now())
}
