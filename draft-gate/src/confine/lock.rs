//! The gate's lock, which also records whether its last holder released it.

use std::{cell::Cell, os::fd::OwnedFd, thread};

use rustix::{
    fs::{FlockOperation, flock},
    io::{pread, pwrite},
};

/// Content of the lock file while the lock is held, and after it was released.
const HELD: u8 = b'1';
const RELEASED: u8 = b'0';

/// A lock on a file. The lock is released when this value is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    fd: OwnedFd,
    is_abandoned: Cell<bool>,
}

impl Lock {
    /// Marks a locked file as held. Errors are ignored: the mark only makes the next holder clean up.
    pub(super) fn new(fd: OwnedFd) -> Self {
        let mut mark = [RELEASED];
        let _ = pread(&fd, &mut mark, 0);
        let _ = pwrite(&fd, &[HELD], 0);
        Self { fd, is_abandoned: Cell::new(mark == [HELD]) }
    }

    /// Returns whether the previous holder was killed while it held the lock, and its leftovers have not been cleaned
    /// up since.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.is_abandoned.get()
    }

    /// Records that the files of a killed holder were removed.
    pub(crate) fn mark_cleaned(&self) {
        self.is_abandoned.set(false);
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if !self.is_abandoned.get() && !thread::panicking() {
            let _ = pwrite(&self.fd, &[RELEASED], 0);
        }
        // Closing the file is not enough: a child process that another thread is spawning holds a copy of the
        // descriptor until it calls `exec`.
        let _ = flock(&self.fd, FlockOperation::Unlock);
    }
}
