//! Shared libraries that the guest can open, although they are not on its disk.

use std::{fs::File, io, os::unix::fs::FileExt};

/// Directory in which the guest's dynamic loader finds the libraries. The directory exists only as a prefix of their
/// paths: it is not on the guest's disk.
pub(super) const LIBRARY_DIR: &str = "/lib";

/// A shared library. The guest can open it for reading and can map it privately.
#[derive(Debug)]
pub(super) struct Library {
    /// Path in the guest.
    pub(super) path: Vec<u8>,
    pub(super) file: File,
    pub(super) len: u64,
    /// Unique number, by which a dynamic loader recognises a library that it has already loaded.
    pub(super) node: u64,
}

impl Library {
    /// Creates a library that the guest can open in [`LIBRARY_DIR`], under this name.
    pub(super) fn new(name: &[u8], file: File, node: u64) -> io::Result<Self> {
        let path = [LIBRARY_DIR.as_bytes(), b"/", name].concat();
        Ok(Self { path, len: file.metadata()?.len(), file, node })
    }

    /// Reads up to `len` bytes. Returns fewer bytes only at the end of the file.
    pub(super) fn read(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let left = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; len.min(left)];
        if !bytes.is_empty() {
            self.file.read_exact_at(&mut bytes, offset)?;
        }
        Ok(bytes)
    }
}
