//! The floor of a run, which is a lower bound for its cost: writing the bytes of all commits to a plain file, with one
//! fsync per commit, and doing nothing else.

use std::{
    fs::{File, OpenOptions},
    io::{self, Seek, Write},
    path::Path,
    time::{Duration, Instant},
};

/// The writes of one run that must reach the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommitProfile {
    pub(crate) count: usize,
    /// Number of bytes written before each fsync.
    pub(crate) bytes: usize,
}

/// A plain file that is written and synced as often as the database is during a run.
#[derive(Debug)]
pub(crate) struct Floor {
    file: File,
    commits: CommitProfile,
    space: FileSpace,
}

/// Determines whether the file is allocated in advance or grows with each write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileSpace {
    /// The file already has its full length and is overwritten, as a write-ahead log is after its contents were copied
    /// into the database. In this case an fsync has the lowest cost.
    Preallocated,
    /// The file grows, so each fsync also stores the new length.
    Growing,
}

impl Floor {
    pub(crate) fn new(path: &Path, commits: CommitProfile, space: FileSpace) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).truncate(true).write(true).open(path)?;
        let mut floor = Self { file, commits, space };
        if space == FileSpace::Preallocated {
            floor.file.write_all(&vec![0; commits.count * commits.bytes])?;
            floor.file.sync_all()?;
        }
        Ok(floor)
    }

    /// Performs all writes of one run and returns the duration.
    pub(crate) fn run(&mut self) -> io::Result<Duration> {
        let block = vec![b'x'; self.commits.bytes];
        if self.space == FileSpace::Growing {
            self.file.set_len(0)?;
            self.file.sync_all()?;
        }
        self.file.rewind()?;
        let start = Instant::now();
        for _ in 0..self.commits.count {
            self.file.write_all(&block)?;
            self.file.sync_data()?;
        }
        Ok(start.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::storage::disk;

    #[test]
    fn every_run_writes_all_bytes() {
        let scratch_dir = disk::scratch_dir().unwrap();
        for space in [FileSpace::Preallocated, FileSpace::Growing] {
            let path = scratch_dir.path().join("floor");
            let mut floor =
                Floor::new(&path, CommitProfile { count: 5, bytes: 30 }, space).unwrap();
            for _ in 0..2 {
                assert!(floor.run().unwrap() > Duration::ZERO);
                assert_eq!(fs::read(&path).unwrap(), [b'x'; 150]);
            }
        }
    }
}
