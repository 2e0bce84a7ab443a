//! Append-only event log of a run, one JSON object per line.

use std::{
    collections::HashSet,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::PipelineEvent;
use crate::fence::escape_invisible_json;

/// An event with its sequence number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NumberedEvent {
    /// Sequence number within the run, from 1.
    pub seq: u64,
    /// The event.
    #[serde(flatten)]
    pub event: PipelineEvent,
}

/// Append-only event log of one run.
#[derive(Debug)]
pub struct EventLog {
    path: PathBuf,
    file: File,
    next: u64,
    logged: HashSet<String>,
    /// Deduplication key of the last event.
    last_key: String,
}

/// The error returned when an event log cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot use event log {}: {source}", path.display())]
pub struct EventLogError {
    path: PathBuf,
    source: io::Error,
}

impl EventLog {
    /// Opens or creates a log. An incomplete line that a crash left at the end is removed.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, EventLogError> {
        let path = path.into();
        let opened = read_events(&path).and_then(|(events, end)| {
            let file = OpenOptions::new().create(true).append(true).open(&path)?;
            file.set_len(end)?;
            Ok((file, events))
        });
        let error = |source| EventLogError { path: path.clone(), source };
        let (file, events) = opened.map_err(error)?;
        let logged = events.iter().map(|it| dedup_key(&it.event)).collect();
        let last_key = events.last().map(|it| dedup_key(&it.event)).unwrap_or_default();
        Ok(Self { path, file, next: events.len() as u64 + 1, logged, last_key })
    }

    /// Reads the events in all complete lines of a log.
    pub fn read(path: &Path) -> Result<Vec<NumberedEvent>, EventLogError> {
        let error = |source| EventLogError { path: path.to_owned(), source };
        read_events(path).map(|it| it.0).map_err(error)
    }

    /// Appends an event and returns it with its sequence number, or `None` if it is a duplicate.
    ///
    /// A failure is never a duplicate. The completion of the run is a duplicate only if it is also the last logged
    /// event. A resumed run may fail for the same reason as before or complete with the same result, and readers of the
    /// log have to learn about that.
    pub fn append(&mut self, event: PipelineEvent) -> Result<Option<NumberedEvent>, EventLogError> {
        let dedup_key = dedup_key(&event);
        let is_duplicate = match event {
            PipelineEvent::PipelineError { .. } => false,
            PipelineEvent::PipelineComplete { .. } => self.last_key == dedup_key,
            _ => self.logged.contains(&dedup_key),
        };
        if is_duplicate {
            return Ok(None);
        }
        let numbered = NumberedEvent { seq: self.next, event };
        let line =
            escape_invisible_json(&serde_json::to_string(&numbered).unwrap_or_default()) + "\n";
        let written = self.file.write_all(line.as_bytes());
        written.map_err(|source| EventLogError { path: self.path.clone(), source })?;
        self.next += 1;
        self.last_key.clone_from(&dedup_key);
        self.logged.insert(dedup_key);
        Ok(Some(numbered))
    }
}

/// Returns the events in all complete lines and the offset after the last complete line.
fn read_events(path: &Path) -> io::Result<(Vec<NumberedEvent>, u64)> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    }?;
    let end = bytes.iter().rposition(|it| *it == b'\n').map_or(0, |it| it + 1);
    let lines = bytes[..end].split(|it| *it == b'\n').filter(|it| !it.is_empty());
    let event = |(idx, line): (usize, &[u8])| {
        let invalid = |error| io::Error::other(format!("line {}: {error}", idx + 1));
        serde_json::from_slice(line).map_err(invalid)
    };
    Ok((lines.enumerate().map(event).collect::<io::Result<_>>()?, end as u64))
}

fn dedup_key(event: &PipelineEvent) -> String {
    serde_json::to_string(event).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{EventLog, PipelineEvent};
    use crate::event::Layer;

    #[test]
    fn events_survive_a_crash_and_are_logged_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let start = |layer| PipelineEvent::layer_start(Layer::Number(layer));
        let mut log = EventLog::open(&path).unwrap();
        assert_eq!(log.append(start(0)).unwrap().unwrap().seq, 1);
        assert_eq!(log.append(start(1)).unwrap().unwrap().seq, 2);
        drop(log);
        let mut bytes = std::fs::read(&path).unwrap();
        // Simulates a crash that cut off the last line in the middle of a character.
        bytes.extend("{\"seq\":3,\"reason\":\"é".as_bytes());
        bytes.pop();
        std::fs::write(&path, bytes).unwrap();

        let mut log = EventLog::open(&path).unwrap();
        assert_eq!(log.append(start(1)).unwrap(), None);
        assert_eq!(log.append(start(2)).unwrap().unwrap().seq, 3);
        let numbers: Vec<u64> = EventLog::read(&path).unwrap().iter().map(|it| it.seq).collect();
        assert_eq!(numbers, [1, 2, 3]);

        let failed =
            || PipelineEvent::PipelineError { message: "the model does not answer".to_owned() };
        assert_eq!(log.append(failed()).unwrap().unwrap().seq, 4);
        drop(log);
        let mut log = EventLog::open(&path).unwrap();
        assert_eq!(log.append(failed()).unwrap().unwrap().seq, 5);

        // Completion is logged again only after other events.
        let done = || PipelineEvent::PipelineComplete { recommended: vec![], other: vec![] };
        assert_eq!(log.append(done()).unwrap().unwrap().seq, 6);
        assert_eq!(log.append(done()).unwrap(), None);
        assert_eq!(log.append(start(3)).unwrap().unwrap().seq, 7);
        assert_eq!(log.append(done()).unwrap().unwrap().seq, 8);

        // A complete but invalid line is an error, and the file is left unchanged.
        let text = std::fs::read_to_string(&path).unwrap().replacen("layer_start", "layer_stop", 1);
        std::fs::write(&path, &text).unwrap();
        let error = EventLog::open(&path).unwrap_err().to_string();
        assert!(error.contains("line 1"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
}
