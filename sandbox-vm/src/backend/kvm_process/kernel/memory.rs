//! System calls that change the heap, the mappings and the access rights of pages.

use std::ops::Range;

use nix::libc;
use rustix::io::Errno;

use super::{Heap, Kernel, call::CallResult, host::HostIo};
use crate::backend::kvm_process::{
    ram::PAGE,
    space::{Access, USER},
};

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

    pub(super) fn mmap(&mut self, [at, len, access, flags, _, _]: [u64; 6]) -> CallResult {
        let flag = |it: i32| flags & u64::from(it.cast_unsigned()) != 0;
        let access = parse_access(access)?;
        // Only anonymous memory can be mapped. Mapping files is not supported.
        if !flag(libc::MAP_ANONYMOUS) {
            return Err(Errno::NODEV.into());
        }
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
        self.space.map(&range, access)?;
        Ok(range.start)
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
