//! Operations on files that are appended to or overwritten in place: the log, the inboxes and `head.json`.

use std::{
    fs::File,
    io::{self, Read},
};

use rustix::fs::{Mode, OFlags, SeekFrom, fdatasync, ftruncate, seek};

use super::{Dir, Durability, PRIVATE_FILE};
use crate::error::Error;

impl Dir {
    /// Appends bytes to a file. Creates the file if it is missing.
    pub(crate) fn append(&self, name: &str, bytes: &[u8], keep: Durability) -> Result<(), Error> {
        self.notify("append to a file", name);
        self.write_in(name, OFlags::APPEND, 0, bytes, keep)
    }

    /// Overwrites a part of a file, starting at an offset.
    pub(crate) fn overwrite(
        &self,
        name: &str,
        offset: u64,
        bytes: &[u8],
        keep: Durability,
    ) -> Result<(), Error> {
        self.notify("overwrite a part of a file", name);
        self.write_in(name, OFlags::empty(), offset, bytes, keep)
    }

    fn write_in(
        &self,
        name: &str,
        extra_flags: OFlags,
        offset: u64,
        bytes: &[u8],
        keep: Durability,
    ) -> Result<(), Error> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | extra_flags;
        let fd = self
            .open(name, flags, Mode::from_raw_mode(PRIVATE_FILE))
            .map_err(|it| self.errno_error("open", name, it))?;
        self.require_regular_file(name, &fd)?;
        let write = || -> io::Result<()> {
            seek(&fd, SeekFrom::Start(offset))?;
            self.write_in_two_parts(&fd, name, bytes)?;
            if keep == Durability::PowerLoss {
                self.notify("sync a file", name);
                fdatasync(&fd)?;
            }
            Ok(())
        };
        write().map_err(|source| self.io_error("write to", name, source))
    }

    /// Returns up to `max_bytes` bytes from the end of a file, and the length of the file.
    pub(crate) fn tail(&self, name: &str, max_bytes: u64) -> Result<Option<(Vec<u8>, u64)>, Error> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let fd = match self.open(name, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(error) => return Err(self.errno_error("open", name, error)),
        };
        let length = u64::try_from(self.require_regular_file(name, &fd)?.st_size).unwrap_or(0);
        let start = length.saturating_sub(max_bytes);
        let read = || -> io::Result<Vec<u8>> {
            seek(&fd, SeekFrom::Start(start))?;
            let mut bytes = vec![];
            File::from(fd.try_clone()?).take(length - start).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let bytes = read().map_err(|source| self.io_error("read", name, source))?;
        Ok(Some((bytes, length)))
    }

    /// Truncates a file to `length` bytes. This removes an incomplete line that a crash left.
    pub(crate) fn truncate(&self, name: &str, length: u64) -> Result<(), Error> {
        self.notify("truncate a file", name);
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let fd = self
            .open(name, flags, Mode::empty())
            .map_err(|it| self.errno_error("open", name, it))?;
        self.require_regular_file(name, &fd)?;
        ftruncate(&fd, length).map_err(|it| self.errno_error("truncate", name, it))
    }
}
