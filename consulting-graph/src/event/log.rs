//! The one ordered list of a run's events, in a file of lines.

use std::{
    collections::HashSet,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::PipelineEvent;
use crate::fence::visible_json;

/// An event with its place in the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Numbered {
    /// Counts the run's events, from 1.
    pub seq: u64,
    /// What happened.
    #[serde(flatten)]
    pub event: PipelineEvent,
}

/// The events of one run, in order, in a file.
#[derive(Debug)]
pub struct EventLog {
    path: PathBuf,
    file: File,
    next: u64,
    known: HashSet<String>,
    /// What was told last.
    last: String,
}

/// Why a list of events cannot be kept.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct EventLogError {
    path: PathBuf,
    source: io::Error,
}

impl EventLog {
    /// Opens a run's list, with all that was told before; half a line that a crash left at its end is cut off.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, EventLogError> {
        let path = path.into();
        let opened = told(&path).and_then(|(events, end)| {
            let file = OpenOptions::new().create(true).append(true).open(&path)?;
            file.set_len(end)?;
            Ok((file, events))
        });
        let problem = |source| EventLogError { path: path.clone(), source };
        let (file, events) = opened.map_err(problem)?;
        let known = events.iter().map(|it| identity(&it.event)).collect();
        let last = events.last().map(|it| identity(&it.event)).unwrap_or_default();
        Ok(Self { path, file, next: events.len() as u64 + 1, known, last })
    }

    /// All events of a list, as far as it is written.
    pub fn read(path: &Path) -> Result<Vec<Numbered>, EventLogError> {
        let problem = |source| EventLogError { path: path.to_owned(), source };
        told(path).map(|it| it.0).map_err(problem)
    }

    /// Adds an event, and gives it with its number; nothing for one that was told before. A run that was resumed may
    /// fail for the same reason again, or come to the same end after it went on, and whoever follows it has to hear of
    /// that.
    pub fn tell(&mut self, event: PipelineEvent) -> Result<Option<Numbered>, EventLogError> {
        let identity = identity(&event);
        let is_known = match event {
            PipelineEvent::PipelineError { .. } => false,
            PipelineEvent::PipelineComplete { .. } => self.last == identity,
            _ => self.known.contains(&identity),
        };
        if is_known {
            return Ok(None);
        }
        let numbered = Numbered { seq: self.next, event };
        let line = visible_json(&serde_json::to_string(&numbered).unwrap_or_default()) + "\n";
        let written = self.file.write_all(line.as_bytes());
        written.map_err(|source| EventLogError { path: self.path.clone(), source })?;
        self.next += 1;
        self.last.clone_from(&identity);
        self.known.insert(identity);
        Ok(Some(numbered))
    }
}

/// What was told, and where the last whole line ends.
fn told(path: &Path) -> io::Result<(Vec<Numbered>, u64)> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    }?;
    let end = bytes.iter().rposition(|it| *it == b'\n').map_or(0, |it| it + 1);
    let lines = bytes[..end].split(|it| *it == b'\n').filter(|it| !it.is_empty());
    let event = |(idx, line): (usize, &[u8])| {
        let wrong = |error| io::Error::other(format!("line {}: {error}", idx + 1));
        serde_json::from_slice(line).map_err(wrong)
    };
    Ok((lines.enumerate().map(event).collect::<io::Result<_>>()?, end as u64))
}

fn identity(event: &PipelineEvent) -> String {
    serde_json::to_string(event).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{EventLog, PipelineEvent};
    use crate::event::Layer;

    #[test]
    fn a_crash_loses_nothing_and_nothing_is_told_twice() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let start = |layer| PipelineEvent::layer_start(Layer::Number(layer));
        let mut log = EventLog::open(&path).unwrap();
        assert_eq!(log.tell(start(0)).unwrap().unwrap().seq, 1);
        assert_eq!(log.tell(start(1)).unwrap().unwrap().seq, 2);
        drop(log);
        let mut bytes = std::fs::read(&path).unwrap();
        // Cut within a character.
        bytes.extend("{\"seq\":3,\"reason\":\"é".as_bytes());
        bytes.pop();
        std::fs::write(&path, bytes).unwrap();

        let mut log = EventLog::open(&path).unwrap();
        assert_eq!(log.tell(start(1)).unwrap(), None);
        assert_eq!(log.tell(start(2)).unwrap().unwrap().seq, 3);
        let numbers: Vec<u64> = EventLog::read(&path).unwrap().iter().map(|it| it.seq).collect();
        assert_eq!(numbers, [1, 2, 3]);

        let failed = || PipelineEvent::PipelineError { message: "nobody answers".to_owned() };
        assert_eq!(log.tell(failed()).unwrap().unwrap().seq, 4);
        drop(log);
        let mut log = EventLog::open(&path).unwrap();
        assert_eq!(log.tell(failed()).unwrap().unwrap().seq, 5);

        // A run that goes on after its end tells its end again, and one that does not tells nothing.
        let done = || PipelineEvent::PipelineComplete { recommended: vec![], other: vec![] };
        assert_eq!(log.tell(done()).unwrap().unwrap().seq, 6);
        assert_eq!(log.tell(done()).unwrap(), None);
        assert_eq!(log.tell(start(3)).unwrap().unwrap().seq, 7);
        assert_eq!(log.tell(done()).unwrap().unwrap().seq, 8);

        // Anything else that is wrong is said, and nothing is cut off.
        let text = std::fs::read_to_string(&path).unwrap().replacen("layer_start", "layer_stop", 1);
        std::fs::write(&path, &text).unwrap();
        let error = EventLog::open(&path).unwrap_err().to_string();
        assert!(error.contains("line 1"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
}
