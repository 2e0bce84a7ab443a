//! Limits the time for scanning submitted text.

/// Maximum work for the files of one change set, in bytes that are searched with a pattern.
const MAX_WORK: usize = 64 << 20;

/// Work that was done on the files of a change set, in bytes that are searched with a pattern.
#[derive(Debug, Default)]
pub(crate) struct Work(usize);

impl Work {
    pub(crate) fn add(&mut self, bytes: usize) {
        self.0 = self.0.saturating_add(bytes);
    }

    /// Returns whether the limit is reached, so that a person must inspect the rest.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.0 > MAX_WORK
    }
}
