//! Complete lines of a file that may still be growing. A line without a newline at its end is incomplete: its writer
//! has not finished it, or crashed.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

/// Reads the complete lines of a growing file, each once.
#[derive(Debug)]
pub struct LineReader {
    path: PathBuf,
    /// Offset after the last line that was read.
    position: u64,
}

impl LineReader {
    /// Creates a reader that starts at the beginning of the file. The file does not have to exist yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), position: 0 }
    }

    /// Returns the offset after the last line that was read.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the complete lines after the last line that was read, without their newlines. Reads at most `max_bytes`
    /// bytes or, if these contain no newline, the whole rest of the file. A missing file has no lines.
    pub fn read(&mut self, max_bytes: u64) -> io::Result<Vec<Vec<u8>>> {
        let mut file = match File::open(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            opened => opened?,
        };
        file.seek(SeekFrom::Start(self.position))?;
        let mut bytes = Vec::new();
        file.by_ref().take(max_bytes).read_to_end(&mut bytes)?;
        if !bytes.contains(&b'\n') {
            file.read_to_end(&mut bytes)?;
        }
        let complete = bytes.iter().rposition(|it| *it == b'\n').map_or(0, |it| it + 1);
        bytes.truncate(complete);
        self.position += complete as u64;
        let lines = bytes.split_inclusive(|it| *it == b'\n');
        Ok(lines.map(|it| it[..it.len() - 1].to_vec()).collect())
    }
}

/// Returns at most `limit` complete lines after line number `after`, each with its number. Lines are counted from 1. A
/// missing file has no lines.
pub fn read_lines(path: &Path, after: u64, limit: usize) -> io::Result<Vec<(u64, String)>> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        opened => BufReader::with_capacity(1 << 16, opened?),
    };
    let mut lines = Vec::new();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        if lines.len() == limit
            || file.read_until(b'\n', &mut line)? == 0
            || line.pop() != Some(b'\n')
        {
            break;
        }
        if number > after {
            lines.push((number, String::from_utf8_lossy(&line).into_owned()));
        }
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use std::{fs::OpenOptions, io::Write};

    use super::{LineReader, read_lines};

    #[test]
    fn lines_of_a_growing_file_are_read_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        let mut reader = LineReader::new(&path);
        assert!(reader.read(9).unwrap().is_empty());
        let mut file = OpenOptions::new().create(true).append(true).open(&path).unwrap();
        file.write_all(b"one\ntwo\nthr").unwrap();
        assert_eq!(reader.read(u64::MAX).unwrap(), [b"one", b"two"]);
        assert!(reader.read(u64::MAX).unwrap().is_empty());
        file.write_all(b"ee\nfour\n").unwrap();
        assert_eq!(reader.read(6).unwrap(), [b"three"]);
        assert_eq!(reader.position(), 14);
        assert_eq!(reader.read(1).unwrap(), [b"four"]);
    }

    #[test]
    fn incomplete_last_lines_are_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        assert!(read_lines(&path, 0, 9).unwrap().is_empty());
        std::fs::write(&path, "a\nb\nc\nincomplete").unwrap();
        let numbered = |number: u64, text: &str| (number, text.to_owned());
        assert_eq!(read_lines(&path, 1, 9).unwrap(), [numbered(2, "b"), numbered(3, "c")]);
        assert_eq!(read_lines(&path, 0, 1).unwrap(), [numbered(1, "a")]);
        assert!(read_lines(&path, 3, 9).unwrap().is_empty());
    }
}
