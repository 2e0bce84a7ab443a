//! Stored times, in nanoseconds since the Unix epoch, clamped to the range of `i64`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) fn nanos(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |it| -it),
    }
}

pub(crate) fn time(nanos: i64) -> SystemTime {
    let distance = Duration::from_nanos(nanos.unsigned_abs());
    if nanos < 0 { UNIX_EPOCH - distance } else { UNIX_EPOCH + distance }
}

/// Converts a lifetime to nanoseconds. Returns `None`, which means that the item never expires, if the lifetime
/// exceeds the range of `i64`.
pub(crate) fn lifetime(lifetime: Duration) -> Option<i64> {
    i64::try_from(lifetime.as_nanos()).ok()
}

#[cfg(test)]
mod tests {
    use super::{nanos, time};

    #[test]
    fn times_round_trip() {
        for it in [0, 1, -1, 1_700_000_000_123_456_700, i64::MAX, i64::MIN + 1] {
            assert_eq!(nanos(time(it)), it);
        }
    }
}
