//! The floor: the same bytes written to a plain file, with the same fsyncs and nothing else.

use std::{
    fs::{File, OpenOptions},
    io::{self, Seek, Write},
    path::Path,
    time::{Duration, Instant},
};

/// What has to reach the disk in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commits {
    /// How often it is synced.
    pub count: usize,
    /// How many bytes are written before each.
    pub bytes: usize,
}

/// A plain file that is written and synced as often as a database would be.
#[derive(Debug)]
pub struct Floor {
    file: File,
    commits: Commits,
    room: Room,
}

/// Whether the file has its length already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// It is written over, as a write-ahead log is once it has been folded into its database: the least an fsync
    /// can cost.
    Kept,
    /// It grows, so that each fsync has to store its new length too.
    Grown,
}

impl Floor {
    /// A file at this path.
    pub fn new(path: &Path, commits: Commits, room: Room) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).truncate(true).write(true).open(path)?;
        let mut floor = Self { file, commits, room };
        if room == Room::Kept {
            floor.file.write_all(&vec![0; commits.count * commits.bytes])?;
            floor.file.sync_all()?;
        }
        Ok(floor)
    }

    /// Writes it all once, and gives the time that took.
    pub fn run(&mut self) -> io::Result<Duration> {
        let block = vec![b'x'; self.commits.bytes];
        if self.room == Room::Grown {
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
        let scratch = disk::scratch().unwrap();
        for room in [Room::Kept, Room::Grown] {
            let path = scratch.path().join("floor");
            let mut floor = Floor::new(&path, Commits { count: 5, bytes: 30 }, room).unwrap();
            for _ in 0..2 {
                assert!(floor.run().unwrap() > Duration::ZERO);
                assert_eq!(fs::read(&path).unwrap(), [b'x'; 150]);
            }
        }
    }
}
