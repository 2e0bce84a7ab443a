//! Allocates shared memory, which belongs to no single process and must still count towards a guest's memory limit.
#![expect(unsafe_code, reason = "mapping memory has no safe wrapper")]

use std::{fs::File, io};

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};

/// Maps `len` bytes of shared memory, writes to all of it, and keeps it until this process ends. The memory is backed
/// by `file`, or anonymous if `file` is `None`.
pub(crate) fn allocate_shared_memory(file: Option<&File>, len: usize) -> io::Result<()> {
    let (access, any_address) = (ProtFlags::READ | ProtFlags::WRITE, std::ptr::null_mut());
    // SAFETY: the call creates a new mapping at an address that the kernel chooses, so it replaces no existing mapping.
    let start = unsafe {
        match file {
            Some(file) => mmap(any_address, len, access, MapFlags::SHARED, file, 0)?,
            None => mmap_anonymous(any_address, len, access, MapFlags::SHARED)?,
        }
    };
    // SAFETY: the mapping is writable and `len` bytes long, and nothing else refers to it.
    unsafe { start.cast::<u8>().write_bytes(1, len) };
    Ok(())
}
