//! Allocates memory that belongs to no single process, or that the kernel needs for a process. Both must count towards
//! a guest's memory limit.
#![expect(unsafe_code, reason = "mapping memory has no safe wrapper")]

use std::{fs::File, io};

use rustix::mm::{
    Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap, mmap_anonymous, mprotect,
};

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

/// Maps the first page of a file, and keeps it mapped until this process ends.
pub(crate) fn map_page(file: &File) -> io::Result<()> {
    let (any_address, len) = (std::ptr::null_mut(), rustix::param::page_size());
    // SAFETY: the call creates a new mapping at an address that the kernel chooses, so it replaces no existing mapping.
    unsafe { mmap(any_address, len, ProtFlags::READ, MapFlags::PRIVATE, file, 0)? };
    Ok(())
}

/// Reads one byte in each of `count` regions of 2 MiB. The bytes are zeros that take no memory, but the kernel needs a
/// page table for each region.
pub(crate) fn touch_sparse_pages(count: usize) -> io::Result<()> {
    const REGION: usize = 2 << 20;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    let len = count * REGION;
    // SAFETY: the call creates a new mapping at an address that the kernel chooses, so it replaces no existing mapping.
    let start = unsafe { mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::READ, flags)? };
    // SAFETY: the range is the mapping that was just created, and the advice does not change its content.
    unsafe { madvise(start, len, Advice::LinuxNoHugepage)? };
    for region in 0..count {
        // SAFETY: the address is inside the mapping, which is readable and never unmapped.
        unsafe { start.cast::<u8>().add(region * REGION).read_volatile() };
    }
    Ok(())
}

/// Splits a mapping into about `count` mappings by giving neighbouring pages different rights. Returns their number.
pub(crate) fn fragment_mapping(count: usize) -> io::Result<usize> {
    let page = rustix::param::page_size();
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    let (none, len) = (ProtFlags::empty(), count * page);
    // SAFETY: the call creates a new mapping at an address that the kernel chooses, so it replaces no existing mapping.
    let start = unsafe { mmap_anonymous(std::ptr::null_mut(), len, none, flags)? };
    for number in (0..count).step_by(2) {
        // SAFETY: the page is part of the mapping that was just created, to which nothing else refers.
        let changed = unsafe {
            mprotect(start.cast::<u8>().add(number * page).cast(), page, MprotectFlags::READ)
        };
        if changed.is_err() {
            return Ok(number);
        }
    }
    Ok(count)
}
