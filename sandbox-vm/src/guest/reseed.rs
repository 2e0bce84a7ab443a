//! Refreshes the random state and the clock of a guest after a snapshot is restored.

use std::{fs::File, io::Write, time::Duration};

use rustix::{
    thread::{CapabilitySets, capabilities, set_capabilities},
    time::{ClockId, Timespec, clock_settime},
};

use crate::{protocol::message::ReseedResult, sys};

/// Mixes fresh random bytes into the guest's kernel and sets its clock, and reports which of the two succeeded.
pub(super) fn reseed(seed: &[u8], since_epoch: Duration) -> ReseedResult {
    let reseed_rng = || -> std::io::Result<()> {
        let mut source = File::options().write(true).open("/dev/urandom")?;
        source.write_all(seed)?;
        sys::reseed_kernel_rng(&source)
    };
    let time = Timespec {
        tv_sec: i64::try_from(since_epoch.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: since_epoch.subsec_nanos().into(),
    };
    with_permitted_capabilities(|| ReseedResult {
        random: reseed_rng().is_ok(),
        clock: clock_settime(ClockId::Realtime, time).is_ok(),
    })
}

/// Runs `work` with all permitted capabilities effective. Drops them again afterwards, because graphs run on the same
/// OS thread.
fn with_permitted_capabilities<T>(work: impl FnOnce() -> T) -> T {
    let Ok(dropped) = capabilities(None) else { return work() };
    // If no capabilities are permitted, or they cannot be set, `work` fails and reports that in its result.
    let _ = set_capabilities(None, CapabilitySets { effective: dropped.permitted, ..dropped });
    let result = work();
    let _ = set_capabilities(None, dropped);
    result
}
