//! Timestamps on the wire.

use std::time::{Duration, SystemTime};

use chrono::{DateTime, SecondsFormat, Utc};

/// Formats a time as RFC 3339, with microseconds.
pub(super) fn wire_time(at: SystemTime) -> String {
    DateTime::<Utc>::from(at).to_rfc3339_opts(SecondsFormat::Micros, false)
}

/// Returns the current time as RFC 3339.
pub(super) fn now() -> String {
    wire_time(SystemTime::now())
}

/// Returns the time that remains until `seconds` after `start`, an RFC 3339 timestamp. Returns zero if that moment has
/// passed.
pub(super) fn time_until(start: &str, seconds: f64) -> Duration {
    let start = DateTime::parse_from_rfc3339(start).map_or_else(|_| SystemTime::now(), Into::into);
    let delay = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    (start + delay).duration_since(SystemTime::now()).unwrap_or_default()
}
