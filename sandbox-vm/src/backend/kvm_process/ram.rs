//! The guest's memory, as the host holds it.
#![expect(unsafe_code, reason = "memory that a VM runs on is mapped and copied by address")]

use std::{ffi::c_void, fs::File, io, ops::Range, ptr::NonNull, rc::Rc};

use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};

/// The size of a page.
pub(super) const PAGE: u64 = 4096;

/// One piece of memory, all zero at first. The host gives a page to it when it is first touched.
#[derive(Debug)]
pub(super) struct Ram {
    mapping: Rc<Mapping>,
    /// The part whose pages came from a file.
    file_backed: Range<u64>,
}

/// The pages themselves. A VM that runs on them holds them too, so they are there for as long as it is.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<c_void>,
    len: usize,
}

impl Ram {
    /// So many bytes, rounded down to whole pages.
    pub(super) fn new(len: u64) -> io::Result<Self> {
        let len = usize::try_from(len / PAGE * PAGE).map_err(io::Error::other)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at a place that the kernel chooses; it replaces nothing.
        let start =
            unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), len, protection, flags)? };
        let start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { mapping: Rc::new(Mapping { start, len }), file_backed: 0..0 })
    }

    pub(super) fn len(&self) -> u64 {
        self.mapping.len as u64
    }

    /// Where it is in this process, which is what KVM has to know.
    pub(super) fn host_address(&self) -> u64 {
        self.mapping.start.as_ptr() as u64
    }

    /// The pages, for whoever needs them to stay.
    pub(super) fn mapping(&self) -> Rc<Mapping> {
        self.mapping.clone()
    }

    /// Copies out of it; `None` where that is not all in it.
    pub(super) fn read(&self, at: u64, into: &mut [u8]) -> Option<()> {
        let from = self.pointer(at, into.len())?;
        // SAFETY: `pointer` has checked that all of it is in the mapping, which lives as long as `self`. The slice is
        // other memory, for nobody is ever given a reference into the mapping. Nobody writes meanwhile: the guest's
        // only processor is run by the thread that is here.
        unsafe { std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) };
        Some(())
    }

    /// Copies into it; `None` where that is not all in it.
    pub(super) fn write(&mut self, at: u64, from: &[u8]) -> Option<()> {
        let into = self.pointer(at, from.len())?;
        // SAFETY: as for `read`, the other way.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), into, from.len()) };
        Some(())
    }

    /// Puts whole pages of a file into it, each when it is first touched. The file itself is never written to.
    ///
    /// It may not become shorter meanwhile: a program that runs does not.
    pub(super) fn map_file(
        &mut self,
        range: Range<u64>,
        file: &File,
        offset: u64,
    ) -> io::Result<()> {
        let (start, len) = self.page_range(&range).ok_or(io::ErrorKind::InvalidInput)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::FIXED;
        // SAFETY: it replaces pages of our own mapping, into which nobody has a reference, by others of the same rights.
        unsafe { rustix::mm::mmap(start, len, protection, flags, file, offset)? };
        self.file_backed = match self.file_backed.is_empty() {
            true => range,
            false => self.file_backed.start.min(range.start)..self.file_backed.end.max(range.end),
        };
        Ok(())
    }

    /// Gives pages back to the host; they are zero afterwards, and the processor forgets them as [`invalidate_translations`] says.
    ///
    /// [`invalidate_translations`]: Self::invalidate_translations
    pub(super) fn discard(&mut self, range: Range<u64>) -> io::Result<()> {
        let Some((start, len)) = self.page_range(&range) else { return Ok(()) };
        if range.end <= self.file_backed.start || self.file_backed.end <= range.start {
            // SAFETY: the range is in the mapping, and private and anonymous: its pages become zero. No reference into
            // it exists.
            unsafe { rustix::mm::madvise(start, len, Advice::LinuxDontNeed)? };
        } else {
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
            // SAFETY: it replaces pages of our own mapping, into which nobody has a reference: with those of a file the
            // other call would bring the file back.
            unsafe { rustix::mm::mmap_anonymous(start, len, protection, flags)? };
        }
        Ok(())
    }

    /// Lets the processor look these pages up in the guest's page tables anew.
    ///
    /// The guest has no kernel that could flush anything, and KVM does not see that we write its page tables. It does
    /// see when the host's own mapping of a page changes, and then drops all it has derived from the page.
    pub(super) fn invalidate_translations(&self, range: Range<u64>) -> io::Result<()> {
        let Some((start, len)) = self.page_range(&range) else { return Ok(()) };
        // SAFETY: the range is in the mapping, and nobody reads or writes it between the two calls: this is the only
        // thread that does.
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
        // SAFETY: the offset is in the mapping, or one past its end where nothing is to be copied.
        inside.then(|| unsafe { self.mapping.start.as_ptr().cast::<u8>().add(at) })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: whoever used the mapping held it, and so is gone; nobody was ever given a reference into it.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write, os::unix::fs::FileExt};

    use super::{PAGE, Ram};

    #[test]
    fn nothing_beyond_its_end_is_reached() {
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
    fn pages_of_a_file_are_its_own_and_empty_once_they_were_given_back() {
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
