//! After a snapshot: new randomness and the time.

use std::{fs::File, io::Write, time::Duration};

use rustix::{
    thread::{CapabilitySets, capabilities, set_capabilities},
    time::{ClockId, Timespec, clock_settime},
};

use crate::{protocol::message::ReseedResult, sys};

/// Mixes fresh randomness into the guest's kernel and sets its clock, where the guest may.
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

/// Takes up the capabilities that this thread has laid down, and lays them down again: graphs run in this thread too.
fn with_permitted_capabilities<T>(work: impl FnOnce() -> T) -> T {
    let Ok(dropped) = capabilities(None) else { return work() };
    // Where there are none, or the call is not allowed, the work fails and says so.
    let _ = set_capabilities(None, CapabilitySets { effective: dropped.permitted, ..dropped });
    let result = work();
    let _ = set_capabilities(None, dropped);
    result
}
