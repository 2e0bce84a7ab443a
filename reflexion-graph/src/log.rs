//! The one ordered list of a session's events, in a file of lines.

use std::{
    collections::HashSet,
    fs::{File, OpenOptions},
    io::{self, BufRead, BufReader, Write},
    path::Path,
};

use serde::{Deserialize, Serialize};

use crate::event::Progress;

/// An event with its place in the session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Numbered {
    /// Counts the session's events, from 1.
    pub seq: u64,
    /// What happened.
    #[serde(flatten)]
    pub event: Progress,
}

/// The events of one session, each once.
#[derive(Debug)]
pub(crate) struct EventLog {
    file: File,
    next: u64,
    known: HashSet<String>,
}

impl EventLog {
    /// Opens a list; half a line that a crash left at its end is cut off.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let lines = lines(path, 0, usize::MAX)?;
        let mut known = HashSet::new();
        let mut end = 0;
        for (_, line) in &lines {
            let numbered: Numbered = serde_json::from_str(line)?;
            known.insert(serde_json::to_string(&numbered.event)?);
            end += line.len() as u64 + 1;
        }
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        file.set_len(end)?;
        Ok(Self { file, next: lines.len() as u64 + 1, known })
    }

    /// Adds an event and gives it with its number; nothing for one that was told before. A failure is told each time.
    pub(crate) fn tell(&mut self, event: Progress) -> io::Result<Option<Numbered>> {
        let is_failure = matches!(event, Progress::Error { .. });
        if !self.known.insert(serde_json::to_string(&event)?) && !is_failure {
            return Ok(None);
        }
        let numbered = Numbered { seq: self.next, event };
        let line = serde_json::to_string(&numbered)? + "\n";
        self.file.write_all(line.as_bytes())?;
        self.next += 1;
        Ok(Some(numbered))
    }
}

/// The whole lines of a list after so many, each with its number; none where there is no list.
pub(crate) fn lines(path: &Path, after: u64, most: usize) -> io::Result<Vec<(u64, String)>> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        opened => BufReader::new(opened?),
    };
    let mut found = Vec::new();
    let mut line = Vec::new();
    for seq in 1.. {
        line.clear();
        if found.len() == most
            || file.read_until(b'\n', &mut line)? == 0
            || line.pop() != Some(b'\n')
        {
            break;
        }
        if seq > after {
            found.push((seq, String::from_utf8_lossy(&line).into_owned()));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::{EventLog, lines};
    use crate::event::Progress;

    #[test]
    fn a_crash_loses_nothing_and_nothing_is_told_twice() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let event = |attempt| Progress::Executing { attempt };
        let mut log = EventLog::open(&path).unwrap();
        assert_eq!(log.tell(event(1)).unwrap().unwrap().seq, 1);
        assert_eq!(log.tell(event(2)).unwrap().unwrap().seq, 2);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.extend(&"{\"seq\":3,\"é".as_bytes()[..11]);
        std::fs::write(&path, bytes).unwrap();

        let mut log = EventLog::open(&path).unwrap();
        assert_eq!(log.tell(event(2)).unwrap(), None);
        assert_eq!(log.tell(event(3)).unwrap().unwrap().seq, 3);
        let failure = || Progress::Error { message: "no".to_owned() };
        assert!(log.tell(failure()).unwrap().is_some() && log.tell(failure()).unwrap().is_some());
        let seen: Vec<u64> = lines(&path, 1, 9).unwrap().into_iter().map(|it| it.0).collect();
        assert_eq!(seen, [2, 3, 4, 5]);
        assert_eq!(lines(&path, 0, 1).unwrap().len(), 1);
    }
}
