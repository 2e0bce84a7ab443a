//! Files that grow at their end or are written where they are: the log, inboxes, and the memory of the log's end.

use std::{
    fs::File,
    io::{self, Read},
};

use rustix::fs::{Mode, OFlags, SeekFrom, fdatasync, ftruncate, seek};

use super::{Folder, Keep, mode::PRIVATE_FILE};
use crate::error::Error;

impl Folder {
    /// Adds bytes to the end of a file, which is made where it is missing.
    pub(crate) fn append(&self, name: &str, bytes: &[u8], keep: Keep) -> Result<(), Error> {
        self.pass("append to a file", name);
        self.write_in(name, OFlags::APPEND, 0, bytes, keep)
    }

    /// Writes bytes over those at a place of a file.
    pub(crate) fn overwrite(
        &self,
        name: &str,
        place: u64,
        bytes: &[u8],
        keep: Keep,
    ) -> Result<(), Error> {
        self.pass("write over a part of a file", name);
        self.write_in(name, OFlags::empty(), place, bytes, keep)
    }

    fn write_in(
        &self,
        name: &str,
        more: OFlags,
        place: u64,
        bytes: &[u8],
        keep: Keep,
    ) -> Result<(), Error> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | more;
        let fd = self
            .open(name, flags, Mode::from_raw_mode(PRIVATE_FILE))
            .map_err(|it| self.refused("open", name, it))?;
        self.plain(name, &fd)?;
        let write = || -> io::Result<()> {
            seek(&fd, SeekFrom::Start(place))?;
            self.write_halves(&fd, name, bytes)?;
            if keep == Keep::ThroughPowerCut {
                self.pass("sync a file", name);
                fdatasync(&fd)?;
            }
            Ok(())
        };
        write().map_err(|source| self.failed("write to", name, source))
    }

    /// The last bytes of a file, at most so many, and its length.
    pub(crate) fn tail(&self, name: &str, most: u64) -> Result<Option<(Vec<u8>, u64)>, Error> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let fd = match self.open(name, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(error) => return Err(self.refused("open", name, error)),
        };
        let length = u64::try_from(self.plain(name, &fd)?.st_size).unwrap_or(0);
        let start = length.saturating_sub(most);
        let read = || -> io::Result<Vec<u8>> {
            seek(&fd, SeekFrom::Start(start))?;
            let mut bytes = vec![];
            File::from(fd.try_clone()?).take(length - start).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let bytes = read().map_err(|source| self.failed("read", name, source))?;
        Ok(Some((bytes, length)))
    }

    /// Cuts a file to a length: for the half of a line that a crash left.
    pub(crate) fn cut(&self, name: &str, length: u64) -> Result<(), Error> {
        self.pass("cut a file", name);
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let fd =
            self.open(name, flags, Mode::empty()).map_err(|it| self.refused("open", name, it))?;
        self.plain(name, &fd)?;
        ftruncate(&fd, length).map_err(|it| self.refused("cut", name, it))
    }
}
