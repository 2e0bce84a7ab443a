//! The guest's address space. This module writes the page tables, and the monitor accesses guest memory only through
//! this module.
//!
//! No page is ever both writable and executable. On behalf of the guest, the monitor never reads or writes memory that
//! the guest itself could not read or write. Page tables are never freed. An entry that refers to a table keeps
//! referring to it forever, so only entries at the last level change.

#[cfg(test)]
mod audit;
mod ranges;
mod runs;

use std::{fs::File, io, ops::Range};

use rustix::io::Errno;

use self::{ranges::RangeSet, runs::FrameRuns};
use super::ram::{PAGE, Ram};

/// Addresses that the guest can use. The structures that the processor needs are located below them.
pub(super) const USER: Range<u64> = 0x40_0000..0x4000_0000_0000;

/// Addresses at which mappings are placed if the guest does not request a specific address.
const MMAP_AREA: Range<u64> = 0x1000_0000_0000..USER.end;

const PRESENT: u64 = 1;
const WRITABLE: u64 = 1 << 1;
const USER_ACCESSIBLE: u64 = 1 << 2;
/// The accessed and dirty bits. They are always set, so that the processor never has to write to the tables.
const ACCESSED_DIRTY: u64 = 0b11 << 5;
const NO_EXECUTE: u64 = 1 << 63;
const FRAME_MASK: u64 = 0x000f_ffff_ffff_f000;

/// Number of tables that new pages may need in addition to one table for each 512 pages.
const SPARE_TABLES: u64 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    None,
    Read,
    Write,
    Execute,
}

impl Access {
    fn bits(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Read => PRESENT | USER_ACCESSIBLE | ACCESSED_DIRTY | NO_EXECUTE,
            Self::Write => PRESENT | USER_ACCESSIBLE | ACCESSED_DIRTY | NO_EXECUTE | WRITABLE,
            Self::Execute => PRESENT | USER_ACCESSIBLE | ACCESSED_DIRTY,
        }
    }
}

#[derive(Debug)]
pub(super) struct AddressSpace {
    ram: Ram,
    root: u64,
    taken: RangeSet,
    /// Address of the first frame that has never been used.
    next_unused: u64,
    /// Frames that are no longer in use. Their content is zero.
    free: Vec<u64>,
    out_of_memory: bool,
}

impl AddressSpace {
    /// Creates an empty address space in `ram`. The first `reserved` bytes of the memory are reserved for other
    /// purposes.
    pub(super) fn new(mut ram: Ram, reserved: u64) -> io::Result<Self> {
        let root = reserved.next_multiple_of(PAGE);
        ram.write(root, &[0; PAGE as usize]).ok_or(io::ErrorKind::OutOfMemory)?;
        let next_unused = root + PAGE;
        Ok(Self {
            ram,
            root,
            taken: RangeSet::default(),
            next_unused,
            free: Vec::new(),
            out_of_memory: false,
        })
    }

    pub(super) fn ram(&self) -> &Ram {
        &self.ram
    }

    pub(super) fn ram_mut(&mut self) -> &mut Ram {
        &mut self.ram
    }

    pub(super) fn root(&self) -> u64 {
        self.root
    }

    /// Returns whether a request for memory has ever failed because no memory was left.
    pub(super) fn ran_out_of_memory(&self) -> bool {
        self.out_of_memory
    }

    /// Maps a page below the guest's addresses to the frame with the same address. `entry` determines whether only the
    /// processor or also the guest can access the page.
    pub(super) fn map_system(&mut self, page: u64, entry: SystemPage) -> Result<(), Errno> {
        let bits = match entry {
            SystemPage::Data => PRESENT | ACCESSED_DIRTY | NO_EXECUTE,
            SystemPage::Stack => PRESENT | ACCESSED_DIRTY | NO_EXECUTE | WRITABLE,
            SystemPage::Code => PRESENT | ACCESSED_DIRTY,
            SystemPage::SharedCode => PRESENT | ACCESSED_DIRTY | USER_ACCESSIBLE,
        };
        let at = self.leaf_entry_or_create(page)?;
        self.set(at, page | bits);
        Ok(())
    }

    /// Maps new, zeroed pages. They replace any pages that are already mapped in the range.
    pub(super) fn map(&mut self, range: &Range<u64>, access: Access) -> Result<(), Errno> {
        self.replace(range, |space| space.protect(range, access))
    }

    /// Maps pages of a file privately. Writes do not reach the file. The pages replace any pages that are already
    /// mapped in the range. The range must not extend beyond the last page of the file.
    pub(super) fn map_file(
        &mut self,
        range: &Range<u64>,
        file: &File,
        offset: u64,
        access: Access,
    ) -> Result<(), Errno> {
        self.replace(range, |space| space.map_file_frames(range, file, offset, access))
    }

    /// Unmaps the range and calls `map` to map new pages in it. If `map` fails, the whole range stays unmapped.
    fn replace(
        &mut self,
        range: &Range<u64>,
        map: impl FnOnce(&mut Self) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        check_range(range)?;
        self.unmap(range)?;
        self.taken.insert(range.clone()).ok_or(Errno::NOMEM)?;
        map(self).or_else(|error| self.unmap(range).and(Err(error)))
    }

    fn map_file_frames(
        &mut self,
        range: &Range<u64>,
        file: &File,
        offset: u64,
        access: Access,
    ) -> Result<(), Errno> {
        // Create all tables first, so that the frames for the file's pages are contiguous.
        for page in range.clone().step_by(PAGE as usize) {
            self.leaf_entry_or_create(page)?;
        }
        let frames = self.next_unused..self.next_unused + (range.end - range.start);
        if frames.end > self.ram.len() {
            self.out_of_memory = true;
            return Err(Errno::NOMEM);
        }
        self.ram.map_file(frames.clone(), file, offset).map_err(|_| Errno::IO)?;
        self.next_unused = frames.end;
        for (page, frame) in range.clone().zip(frames).step_by(PAGE as usize) {
            let at = self.leaf_entry_or_create(page)?;
            self.set(at, frame | access.bits());
        }
        Ok(())
    }

    /// Finds a free range of at least `len` bytes.
    pub(super) fn find_free(&self, len: u64) -> Result<Range<u64>, Errno> {
        let len = len.checked_next_multiple_of(PAGE).ok_or(Errno::NOMEM)?;
        self.taken.find_gap(len, MMAP_AREA).ok_or(Errno::NOMEM)
    }

    pub(super) fn is_free(&self, range: &Range<u64>) -> bool {
        self.taken.is_free(range)
    }

    pub(super) fn unmap(&mut self, range: &Range<u64>) -> Result<(), Errno> {
        check_range(range)?;
        self.taken.remove(range).ok_or(Errno::NOMEM)?;
        let mut runs = FrameRuns::default();
        self.each_entry(range, |space, at, entry| {
            if entry & FRAME_MASK != 0 {
                space.set(at, 0);
                runs.add(entry & FRAME_MASK);
            }
        });
        for run in runs.0 {
            self.ram.discard(run.clone()).map_err(|_| Errno::NOMEM)?;
            self.free.extend(run.step_by(PAGE as usize));
        }
        Ok(())
    }

    /// Zeroes the writable pages in the range. They stay mapped.
    pub(super) fn clear(&mut self, range: &Range<u64>) -> Result<(), Errno> {
        check_range(range)?;
        let mut runs = FrameRuns::default();
        self.each_entry(range, |_, _, entry| {
            // Pages that are not writable must not be zeroed, because that would change the program.
            if entry & WRITABLE != 0 {
                runs.add(entry & FRAME_MASK);
            }
        });
        runs.0.into_iter().try_for_each(|it| self.ram.discard(it)).map_err(|_| Errno::NOMEM)
    }

    /// Changes the access rights of mapped pages.
    pub(super) fn protect(&mut self, range: &Range<u64>, access: Access) -> Result<(), Errno> {
        check_range(range)?;
        if !self.taken.covers(range) {
            return Err(Errno::NOMEM);
        }
        let (mut framed, mut stale) = (0, FrameRuns::default());
        let bits = access.bits();
        self.each_entry(range, |space, at, entry| {
            let frame = entry & FRAME_MASK;
            if frame != 0 {
                framed += 1;
                space.set(at, frame | bits);
                if entry & PRESENT != 0 && entry != frame | bits {
                    stale.add(frame);
                }
            }
        });
        for run in stale.0 {
            self.ram.invalidate_translations(run).map_err(|_| Errno::NOMEM)?;
        }
        match access {
            Access::None => Ok(()),
            _ => self.allocate_missing(range, (range.end - range.start) / PAGE - framed, bits),
        }
    }

    /// Allocates a frame for each page in the range that has none. `missing` is the number of these pages.
    fn allocate_missing(
        &mut self,
        range: &Range<u64>,
        missing: u64,
        bits: u64,
    ) -> Result<(), Errno> {
        let left = (self.ram.len() - self.next_unused) / PAGE + self.free.len() as u64;
        if missing > 0 && missing.saturating_add(missing / 512 + SPARE_TABLES) > left {
            self.out_of_memory = true;
            return Err(Errno::NOMEM);
        }
        if missing == 0 {
            return Ok(());
        }
        for page in range.clone().step_by(PAGE as usize) {
            let at = self.leaf_entry_or_create(page)?;
            if self.get(at) & FRAME_MASK == 0 {
                let frame = self.allocate_frame()?;
                self.set(at, frame | bits);
            }
        }
        Ok(())
    }

    /// Reads guest memory. Fails if the guest itself could not read it.
    pub(super) fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Errno> {
        let mut rest = into;
        self.each_piece(at, rest.len(), 0, |frame, len| {
            let (piece, later) = std::mem::take(&mut rest).split_at_mut(len);
            rest = later;
            self.ram.read(frame, piece)
        })
    }

    /// Checks that the guest itself could write to the range.
    pub(super) fn check_writable(&self, at: u64, len: usize) -> Result<(), Errno> {
        self.each_piece(at, len, WRITABLE, |_, _| Some(()))
    }

    /// Writes to guest memory. Fails without writing anything if the guest itself could not write to all of it.
    pub(super) fn write(&mut self, at: u64, from: &[u8]) -> Result<(), Errno> {
        let mut pieces = Vec::new();
        self.each_piece(at, from.len(), WRITABLE, |frame, len| {
            pieces.push((frame, len));
            Some(())
        })?;
        let mut rest = from;
        for (frame, len) in pieces {
            let (piece, later) = rest.split_at(len);
            rest = later;
            self.ram.write(frame, piece).ok_or(Errno::FAULT)?;
        }
        Ok(())
    }

    /// Translates a range of guest addresses page by page. For each page, calls `each` with the address in [`Ram`] and
    /// the length of the part of the range that is in the page.
    fn each_piece(
        &self,
        at: u64,
        len: usize,
        needed: u64,
        mut each: impl FnMut(u64, usize) -> Option<()>,
    ) -> Result<(), Errno> {
        let end = at.checked_add(len as u64).ok_or(Errno::FAULT)?;
        if len > 0 && (at < USER.start || end > USER.end) {
            return Err(Errno::FAULT);
        }
        let mut at = at;
        while at < end {
            let page = at / PAGE * PAGE;
            let entry = self.leaf_entry(page).map_err(|_| Errno::FAULT).map(|it| self.get(it))?;
            let needed = needed | PRESENT | USER_ACCESSIBLE;
            if entry & needed != needed {
                return Err(Errno::FAULT);
            }
            let next = end.min(page + PAGE);
            each((entry & FRAME_MASK) + (at - page), (next - at) as usize).ok_or(Errno::FAULT)?;
            at = next;
        }
        Ok(())
    }

    /// Calls `each` with the address and the value of every last-level entry in a range. Pages without a table are
    /// skipped.
    fn each_entry(&mut self, range: &Range<u64>, mut each: impl FnMut(&mut Self, u64, u64)) {
        let mut page = range.start;
        while page < range.end {
            match self.leaf_entry(page) {
                Ok(at) => {
                    let entry = self.get(at);
                    each(self, at, entry);
                    page += PAGE;
                }
                // If a table is missing, no page in the span that it would cover has an entry, so skip the span.
                Err(MissingTable { span }) => page = (page / span + 1) * span,
            }
        }
    }

    /// Returns the address of a page's entry at the last level.
    fn leaf_entry(&self, page: u64) -> Result<u64, MissingTable> {
        let mut table = self.root;
        for level in (1..4).rev() {
            let entry = self.get(table + index(page, level));
            if entry & PRESENT == 0 {
                return Err(MissingTable { span: PAGE << (9 * level) });
            }
            table = entry & FRAME_MASK;
        }
        Ok(table + index(page, 0))
    }

    fn leaf_entry_or_create(&mut self, page: u64) -> Result<u64, Errno> {
        let mut table = self.root;
        for level in (1..4).rev() {
            let at = table + index(page, level);
            if self.get(at) & PRESENT == 0 {
                let frame = self.allocate_frame()?;
                // This entry allows all access, because access rights are decided only at the last level.
                self.set(at, frame | PRESENT | WRITABLE | USER_ACCESSIBLE | ACCESSED_DIRTY);
            }
            table = self.get(at) & FRAME_MASK;
        }
        Ok(table + index(page, 0))
    }

    /// Returns a zeroed frame.
    fn allocate_frame(&mut self) -> Result<u64, Errno> {
        if let Some(frame) = self.free.pop() {
            return Ok(frame);
        }
        let frame = self.next_unused;
        if frame + PAGE > self.ram.len() {
            self.out_of_memory = true;
            return Err(Errno::NOMEM);
        }
        self.next_unused += PAGE;
        Ok(frame)
    }

    fn get(&self, at: u64) -> u64 {
        let mut bytes = [0; 8];
        self.ram.read(at, &mut bytes).expect("page tables refer only to memory that exists");
        u64::from_le_bytes(bytes)
    }

    fn set(&mut self, at: u64, entry: u64) {
        self.ram
            .write(at, &entry.to_le_bytes())
            .expect("page tables refer only to memory that exists");
    }
}

/// Purpose of a page below the guest's addresses.
#[derive(Clone, Copy, Debug)]
pub(super) enum SystemPage {
    Data,
    Stack,
    Code,
    /// Code that the guest can also execute and read.
    SharedCode,
}

/// The error returned when an address has no page table. The table is missing for the whole aligned block of `span`
/// bytes around the address.
struct MissingTable {
    span: u64,
}

fn index(page: u64, level: u32) -> u64 {
    (page >> (12 + 9 * level) & 0x1ff) * 8
}

/// Checks that a range consists of whole pages and is within the guest's addresses.
fn check_range(range: &Range<u64>) -> Result<(), Errno> {
    let whole = range.start.is_multiple_of(PAGE) && range.end.is_multiple_of(PAGE);
    let inside = USER.start <= range.start && range.start < range.end && range.end <= USER.end;
    if whole && inside { Ok(()) } else { Err(Errno::INVAL) }
}

#[cfg(test)]
mod tests;
