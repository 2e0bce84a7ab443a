//! The guest's memory, which is mapped in the monitor process.
#![expect(unsafe_code, reason = "the memory of a VM is mapped and copied by address")]

use std::{ffi::c_void, fs::File, io, ops::Range, ptr::NonNull, rc::Rc};

use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};

pub(super) const PAGE: u64 = 4096;

/// One contiguous block of memory, initially zero. The host allocates each page when it is first accessed.
#[derive(Debug)]
pub(super) struct Ram {
    mapping: Rc<Mapping>,
    /// The smallest range that contains all pages mapped from a file.
    file_backed: Range<u64>,
}

/// The pages themselves. A VM that uses the pages holds a reference too, so the pages exist for as long as the VM does.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<c_void>,
    len: usize,
}

impl Ram {
    /// Reserves `len` bytes, rounded down to whole pages.
    pub(super) fn new(len: u64) -> io::Result<Self> {
        let len = usize::try_from(len / PAGE * PAGE).map_err(io::Error::other)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: the call creates a new mapping at an address that the kernel chooses, so it replaces no existing
        // mapping.
        let start =
            unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), len, protection, flags)? };
        let start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { mapping: Rc::new(Mapping { start, len }), file_backed: 0..0 })
    }

    pub(super) fn len(&self) -> u64 {
        self.mapping.len as u64
    }

    /// Returns the address of the memory in this process, which KVM needs.
    pub(super) fn host_address(&self) -> u64 {
        self.mapping.start.as_ptr() as u64
    }

    /// Returns a reference that keeps the pages alive.
    pub(super) fn mapping(&self) -> Rc<Mapping> {
        self.mapping.clone()
    }

    /// Copies bytes out of the memory. Returns `None` if the range is not completely inside the memory.
    pub(super) fn read(&self, at: u64, into: &mut [u8]) -> Option<()> {
        let from = self.pointer(at, into.len())?;
        // SAFETY: `pointer` has checked that the whole range is in the mapping, which lives as long as `self`. The
        // slice does not overlap with the mapping, because no reference into the mapping is ever created. Nothing
        // writes to the mapping meanwhile, because this thread runs the guest's only processor.
        unsafe { std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) };
        Some(())
    }

    /// Copies bytes into the memory. Returns `None` if the range is not completely inside the memory.
    pub(super) fn write(&mut self, at: u64, from: &[u8]) -> Option<()> {
        let into = self.pointer(at, from.len())?;
        // SAFETY: as in `read`, but in the other direction. `pointer` has checked the range, the slice does not overlap
        // with the mapping, and only this thread runs the guest's processor.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), into, from.len()) };
        Some(())
    }

    /// Maps whole pages of a file privately. Each page is read when it is first accessed. The file itself is never
    /// written to.
    ///
    /// The file must not become shorter while it is mapped. The file of a running program cannot be truncated, so it
    /// meets this condition.
    pub(super) fn map_file(
        &mut self,
        range: Range<u64>,
        file: &File,
        offset: u64,
    ) -> io::Result<()> {
        let (start, len) = self.page_range(&range).ok_or(io::ErrorKind::InvalidInput)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::FIXED;
        // SAFETY: the call replaces pages of this mapping, into which there are no references, with pages that have the
        // same access rights.
        unsafe { rustix::mm::mmap(start, len, protection, flags, file, offset)? };
        self.file_backed = match self.file_backed.is_empty() {
            true => range,
            false => self.file_backed.start.min(range.start)..self.file_backed.end.max(range.end),
        };
        Ok(())
    }

    /// Returns pages to the host. Afterwards the pages read as zero, and KVM drops its translations for them, as
    /// described for [`invalidate_translations`].
    ///
    /// [`invalidate_translations`]: Self::invalidate_translations
    pub(super) fn discard(&mut self, range: Range<u64>) -> io::Result<()> {
        let Some((start, len)) = self.page_range(&range) else { return Ok(()) };
        if range.end <= self.file_backed.start || self.file_backed.end <= range.start {
            // SAFETY: the range is in the mapping and is private and anonymous, so its pages become zero. There are no
            // references into the range.
            unsafe { rustix::mm::madvise(start, len, Advice::LinuxDontNeed)? };
        } else {
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
            // SAFETY: the call replaces pages of this mapping, into which there are no references. `madvise` cannot be
            // used here, because it would restore the file's content in pages that are mapped from a file.
            unsafe { rustix::mm::mmap_anonymous(start, len, protection, flags)? };
        }
        Ok(())
    }

    /// Makes the processor look up these pages in the guest's page tables again.
    ///
    /// The guest has no kernel that could flush translations, and KVM does not notice that the monitor writes to the
    /// guest's page tables. KVM does notice when the host's own mapping of a page changes, and then drops everything
    /// that it has derived from that page.
    pub(super) fn invalidate_translations(&self, range: Range<u64>) -> io::Result<()> {
        let Some((start, len)) = self.page_range(&range) else { return Ok(()) };
        // SAFETY: the range is in the mapping, and nothing accesses it between the two calls, because only this thread
        // accesses the mapping.
        unsafe {
            rustix::mm::mprotect(start, len, MprotectFlags::empty())?;
            rustix::mm::mprotect(start, len, MprotectFlags::READ | MprotectFlags::WRITE)?;
        }
        Ok(())
    }

    fn page_range(&self, range: &Range<u64>) -> Option<(*mut c_void, usize)> {
        let len = usize::try_from(range.end.checked_sub(range.start)?).ok()?;
        let aligned = range.start.is_multiple_of(PAGE) && range.end.is_multiple_of(PAGE);
        let start = self.pointer(range.start, len).filter(|_| aligned && len > 0)?;
        Some((start.cast(), len))
    }

    fn pointer(&self, at: u64, len: usize) -> Option<*mut u8> {
        let at = usize::try_from(at).ok()?;
        let inside = at.checked_add(len).is_some_and(|end| end <= self.mapping.len);
        // SAFETY: the offset is in the mapping, or one past the end of the mapping if `len` is zero.
        inside.then(|| unsafe { self.mapping.start.as_ptr().cast::<u8>().add(at) })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: everything that used the mapping held a reference to this value and has been dropped. No reference
        // into the pages was ever created.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write, os::unix::fs::FileExt};

    use super::{PAGE, Ram};

    #[test]
    fn accesses_beyond_the_end_fail() {
        let mut ram = Ram::new(2 * PAGE + 7).unwrap();
        assert_eq!(ram.len(), 2 * PAGE);
        ram.write(2 * PAGE - 3, b"end").unwrap();
        let mut bytes = [0; 3];
        ram.read(2 * PAGE - 3, &mut bytes).unwrap();
        assert_eq!(&bytes, b"end");
        for at in [2 * PAGE - 2, 2 * PAGE, u64::MAX, u64::MAX - 2] {
            assert_eq!(ram.read(at, &mut bytes), None, "{at}");
            assert_eq!(ram.write(at, &bytes), None, "{at}");
        }
        ram.discard(PAGE..2 * PAGE).unwrap();
        ram.read(2 * PAGE - 3, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 3]);
    }

    #[test]
    fn file_pages_are_private_and_zero_after_discard() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![b'f'; 2 * PAGE as usize]).unwrap();
        let mut ram = Ram::new(4 * PAGE).unwrap();
        ram.map_file(PAGE..3 * PAGE, &file, 0).unwrap();
        ram.write(PAGE + 1, b"g").unwrap();
        let mut bytes = [0; 3];
        ram.read(PAGE, &mut bytes).unwrap();
        assert_eq!(&bytes, b"fgf");
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"fff");
        ram.discard(PAGE..3 * PAGE).unwrap();
        ram.read(2 * PAGE - 1, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 3]);
        assert!(ram.map_file(3 * PAGE..5 * PAGE, &file, 0).is_err());
    }
}
