//! Numbers of equal journaled calls.

use std::collections::BTreeSet;

/// The numbers of equal calls, starting at 1.
#[derive(Debug, Default)]
pub(super) struct CallNumbers {
    /// The highest number that was taken.
    highest: u32,
    /// Numbers of calls that ended without a result.
    released: BTreeSet<u32>,
}

impl CallNumbers {
    pub(super) fn take(&mut self) -> u32 {
        self.released.pop_first().unwrap_or_else(|| {
            self.highest += 1;
            self.highest
        })
    }

    pub(super) fn release(&mut self, number: u32) {
        self.released.insert(number);
    }
}
