//! System calls that change the heap, the mappings and the access rights of pages.

use std::{ops::Range, rc::Rc};

use nix::libc;
use rustix::io::Errno;

use super::{Heap, Kernel, call::CallResult, descriptors::Object, host::HostIo};
use crate::backend::kvm_process::{
    library::Library,
    ram::PAGE,
    space::{Access, USER},
};

/// Bits of the flags of `mmap` that distinguish private from shared mappings.
const MAP_TYPE: u64 = 0xf;

impl<O: HostIo> Kernel<O> {
    /// Moves the end of the heap to `end` and returns its new position. Returns the old position if the end cannot be
    /// moved.
    pub(super) fn brk(&mut self, end: u64) -> CallResult {
        let pages = |it: u64| it.next_multiple_of(PAGE);
        let Heap { start, end: old } = self.heap;
        if end < start || end > USER.end {
            return Ok(old);
        }
        let (from, to) = (pages(old), pages(end));
        let moved = if to > from {
            match self.space.is_free(&(from..to)) {
                true => self.space.map(&(from..to), Access::Write),
                false => Err(Errno::NOMEM),
            }
        } else if to < from {
            self.space.unmap(&(to..from))
        } else {
            Ok(())
        };
        if moved.is_ok() {
            self.heap.end = end;
        }
        Ok(self.heap.end)
    }

    /// Maps anonymous memory, or pages of a library. Other files cannot be mapped.
    pub(super) fn mmap(&mut self, [at, len, access, flags, fd, offset]: [u64; 6]) -> CallResult {
        let flag = |it: i32| flags & u64::from(it.cast_unsigned()) != 0;
        let access = parse_access(access)?;
        let library = match flag(libc::MAP_ANONYMOUS) {
            true => None,
            false => Some(self.mappable_library(fd, flags, offset)?),
        };
        let wanted = pages(at, len).filter(|it| it.start >= USER.start && it.end <= USER.end);
        let range = if flag(libc::MAP_FIXED) || flag(libc::MAP_FIXED_NOREPLACE) {
            let range = wanted.ok_or(Errno::INVAL)?;
            if flag(libc::MAP_FIXED_NOREPLACE) && !self.space.is_free(&range) {
                return Err(Errno::EXIST.into());
            }
            range
        } else {
            match wanted {
                Some(range) if self.space.is_free(&range) => range,
                _ if len == 0 => return Err(Errno::INVAL.into()),
                _ => self.space.find_free(len)?,
            }
        };
        match library {
            Some(library) => self.map_library(&library, offset, &range, access)?,
            None => self.space.map(&range, access)?,
        }
        Ok(range.start)
    }

    /// Returns the library that is open as `fd`. Fails for any other file, and if the mapping would be shared.
    fn mappable_library(&self, fd: u64, flags: u64, offset: u64) -> Result<Rc<Library>, Errno> {
        match &self.open(fd)?.object {
            Object::Library(_) if flags & MAP_TYPE != libc::MAP_PRIVATE as u64 => {
                Err(Errno::ACCESS)
            }
            Object::Library(_) if !offset.is_multiple_of(PAGE) => Err(Errno::INVAL),
            Object::Library(library) => Ok(library.clone()),
            _ => Err(Errno::NODEV),
        }
    }

    /// Maps pages of a library. Pages after the end of the library are zero, because accessing a mapped page after the
    /// end of a file would end the monitor.
    fn map_library(
        &mut self,
        library: &Library,
        offset: u64,
        range: &Range<u64>,
        access: Access,
    ) -> Result<(), Errno> {
        let in_file = library.len.next_multiple_of(PAGE).saturating_sub(offset);
        let split = range.start + in_file.min(range.end - range.start);
        if split < range.end {
            self.space.map(&(split..range.end), access)?;
        }
        if range.start < split {
            self.space.map_file(&(range.start..split), &library.file, offset, access)?;
        }
        Ok(())
    }

    pub(super) fn munmap(&mut self, at: u64, len: u64) -> CallResult {
        self.space.unmap(&pages(at, len).ok_or(Errno::INVAL)?)?;
        Ok(0)
    }

    pub(super) fn mprotect(&mut self, at: u64, len: u64, access: u64) -> CallResult {
        let access = parse_access(access)?;
        if len > 0 {
            self.space.protect(&pages(at, len).ok_or(Errno::INVAL)?, access)?;
        }
        Ok(0)
    }

    /// Handles `madvise`. Only `MADV_DONTNEED` has an effect, because it changes what the guest reads. Other advice is
    /// ignored.
    pub(super) fn madvise(&mut self, at: u64, len: u64, advice: u64) -> CallResult {
        if advice == u64::from(libc::MADV_DONTNEED.cast_unsigned()) && len > 0 {
            self.space.clear(&pages(at, len).ok_or(Errno::INVAL)?)?;
        }
        Ok(0)
    }
}

/// Extends a range to whole pages. Returns `None` if the range does not start at a page boundary or is empty.
fn pages(at: u64, len: u64) -> Option<Range<u64>> {
    let end = at.checked_add(len)?.checked_next_multiple_of(PAGE)?;
    (at.is_multiple_of(PAGE) && end > at).then_some(at..end)
}

/// Parses access rights. Fails if a page would be both writable and executable.
fn parse_access(bits: u64) -> Result<Access, Errno> {
    const READ: u64 = libc::PROT_READ as u64;
    const WRITE: u64 = libc::PROT_WRITE as u64;
    const EXECUTE: u64 = libc::PROT_EXEC as u64;
    const READ_WRITE: u64 = READ | WRITE;
    const READ_EXECUTE: u64 = READ | EXECUTE;
    match bits {
        0 => Ok(Access::None),
        READ => Ok(Access::Read),
        WRITE | READ_WRITE => Ok(Access::Write),
        EXECUTE | READ_EXECUTE => Ok(Access::Execute),
        _ => Err(Errno::ACCESS),
    }
}
