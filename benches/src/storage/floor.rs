//! The floor: the same bytes written to a plain file, with the same fsyncs and nothing else.

use std::{
    fs::{File, OpenOptions},
    io::{self, Seek, Write},
    path::Path,
    time::{Duration, Instant},
};

/// What has to reach the disk in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitProfile {
    /// How often it is synced.
    pub count: usize,
    /// How many bytes are written before each.
    pub bytes: usize,
}

/// A plain file that is written and synced as often as a database would be.
#[derive(Debug)]
pub struct Floor {
    file: File,
    commits: CommitProfile,
    space: FileSpace,
}

/// Whether the file has its length already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSpace {
    /// It is written over, as a write-ahead log is once it has been folded into its database: the least an fsync
    /// can cost.
    Preallocated,
    /// It grows, so that each fsync has to store its new length too.
    Growing,
}

impl Floor {
    /// A file at this path.
    pub fn new(path: &Path, commits: CommitProfile, space: FileSpace) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).truncate(true).write(true).open(path)?;
        let mut floor = Self { file, commits, space };
        if space == FileSpace::Preallocated {
            floor.file.write_all(&vec![0; commits.count * commits.bytes])?;
            floor.file.sync_all()?;
        }
        Ok(floor)
    }

    /// Writes it all once, and gives the time that took.
    pub fn run(&mut self) -> io::Result<Duration> {
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
    fn all_bytes_are_written_each_time() {
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
