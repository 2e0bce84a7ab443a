//! The append-only event log of a session. Each line is a JSON object.

use std::{
    collections::HashSet,
    fs::{File, OpenOptions},
    io::{self, BufRead, BufReader, Write},
    path::Path,
};

use serde::{Deserialize, Serialize};

use crate::event::Progress;

/// An event with its sequence number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NumberedEvent {
    /// Sequence number within the session, from 1.
    pub seq: u64,
    /// The event.
    #[serde(flatten)]
    pub event: Progress,
}

/// Event log of a session. Duplicate events are not appended.
#[derive(Debug)]
pub(crate) struct EventLog {
    file: File,
    next: u64,
    seen: HashSet<String>,
}

impl EventLog {
    /// Opens a log and removes an incomplete last line left by a crash.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let lines = read_lines(path, 0, usize::MAX)?;
        let mut seen = HashSet::new();
        let mut end = 0;
        for (_, line) in &lines {
            let numbered: NumberedEvent = serde_json::from_str(line)?;
            seen.insert(serde_json::to_string(&numbered.event)?);
            end += line.len() as u64 + 1;
        }
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        file.set_len(end)?;
        Ok(Self { file, next: lines.len() as u64 + 1, seen })
    }

    /// Appends an event and returns it with its number. If the log already contains the event, returns `None` and
    /// appends nothing, except that `Error` events are always appended.
    pub(crate) fn append(&mut self, event: Progress) -> io::Result<Option<NumberedEvent>> {
        let is_failure = matches!(event, Progress::Error { .. });
        if !self.seen.insert(serde_json::to_string(&event)?) && !is_failure {
            return Ok(None);
        }
        let numbered = NumberedEvent { seq: self.next, event };
        let line = serde_json::to_string(&numbered)? + "\n";
        self.file.write_all(line.as_bytes())?;
        self.next += 1;
        Ok(Some(numbered))
    }
}

/// Returns the complete lines whose number is greater than `after`, but at most `limit` lines, each with its number. A
/// missing file counts as an empty log.
pub(crate) fn read_lines(path: &Path, after: u64, limit: usize) -> io::Result<Vec<(u64, String)>> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        opened => BufReader::new(opened?),
    };
    let mut entries = Vec::new();
    let mut line = Vec::new();
    for seq in 1.. {
        line.clear();
        if entries.len() == limit
            || file.read_until(b'\n', &mut line)? == 0
            || line.pop() != Some(b'\n')
        {
            break;
        }
        if seq > after {
            entries.push((seq, String::from_utf8_lossy(&line).into_owned()));
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::{EventLog, read_lines};
    use crate::event::Progress;

    #[test]
    fn incomplete_lines_are_removed_and_duplicates_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        let event = |attempt| Progress::Executing { attempt };
        let mut log = EventLog::open(&path).unwrap();
        assert_eq!(log.append(event(1)).unwrap().unwrap().seq, 1);
        assert_eq!(log.append(event(2)).unwrap().unwrap().seq, 2);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.extend(&"{\"seq\":3,\"é".as_bytes()[..11]);
        std::fs::write(&path, bytes).unwrap();

        let mut log = EventLog::open(&path).unwrap();
        assert_eq!(log.append(event(2)).unwrap(), None);
        assert_eq!(log.append(event(3)).unwrap().unwrap().seq, 3);
        let failure = || Progress::Error { message: "no".to_owned() };
        assert!(
            log.append(failure()).unwrap().is_some() && log.append(failure()).unwrap().is_some()
        );
        let seen: Vec<u64> = read_lines(&path, 1, 9).unwrap().into_iter().map(|it| it.0).collect();
        assert_eq!(seen, [2, 3, 4, 5]);
        assert_eq!(read_lines(&path, 0, 1).unwrap().len(), 1);
    }
}
