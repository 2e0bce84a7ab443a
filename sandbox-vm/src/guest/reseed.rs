//! After a snapshot: new randomness and the time.

use std::{fs::File, io::Write, time::Duration};

use rustix::{
    thread::{CapabilitySets, capabilities, set_capabilities},
    time::{ClockId, Timespec, clock_settime},
};

use crate::{protocol::message::Reseeded, sys};

/// Mixes fresh randomness into the guest's kernel and sets its clock, where the guest may.
pub(super) fn reseed(seed: &[u8], since_epoch: Duration) -> Reseeded {
    let mix = || -> std::io::Result<()> {
        let mut source = File::options().write(true).open("/dev/urandom")?;
        source.write_all(seed)?;
        sys::use_new_randomness(&source)
    };
    let time = Timespec {
        tv_sec: i64::try_from(since_epoch.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: since_epoch.subsec_nanos().into(),
    };
    with_all_rights(|| Reseeded {
        random: mix().is_ok(),
        clock: clock_settime(ClockId::Realtime, time).is_ok(),
    })
}

/// Takes up the capabilities that this thread has laid down, and lays them down again: graphs run in this thread too.
fn with_all_rights<T>(work: impl FnOnce() -> T) -> T {
    let Ok(laid_down) = capabilities(None) else { return work() };
    // Where there are none, or the call is not allowed, the work fails and says so.
    let _ = set_capabilities(None, CapabilitySets { effective: laid_down.permitted, ..laid_down });
    let done = work();
    let _ = set_capabilities(None, laid_down);
    done
}
