//! Append-only event log of a run, one JSON object per line.
//!
//! A node that runs again after a crash sends its events again, so the log drops events that it already contains.

use std::{
    collections::HashSet,
    fs::{File, OpenOptions},
    io::{self, Write},
    marker::PhantomData,
    path::{Path, PathBuf},
    time::SystemTime,
};

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{lines::LineReader, terminal::escape_invisible_json};

/// An event that can be logged.
pub trait LoggedEvent: Serialize + DeserializeOwned {
    /// Returns the condition under which the event is logged although the log already contains an equal event.
    fn repetition(&self) -> Repetition {
        Repetition::Never
    }
}

/// Condition under which an event is logged although the log already contains an equal event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repetition {
    /// The event happens once in a run. An equal event is a duplicate.
    Never,
    /// The same event may occur again after other events. It is a duplicate only if it equals the last logged event.
    AfterOtherEvents,
    /// The event is always logged. An example is a failure: a resumed run may fail again for the same reason.
    Always,
}

/// An event with its sequence number and its time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NumberedEvent<E> {
    /// Sequence number within the run, from 1.
    pub seq: u64,
    /// Time at which the event was logged, in RFC 3339 format. Empty in logs of earlier versions.
    #[serde(default)]
    pub at: String,
    /// The event.
    #[serde(flatten)]
    pub event: E,
}

/// Event log of one run.
#[derive(Debug)]
pub struct EventLog<E> {
    path: PathBuf,
    file: File,
    next: u64,
    /// All logged events, as JSON.
    logged: HashSet<String>,
    /// The last logged event, as JSON.
    last: String,
    _events: PhantomData<fn(E)>,
}

/// The error returned when an event log cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot read or write the event log {}: {source}", path.display())]
pub struct EventLogError {
    path: PathBuf,
    source: io::Error,
}

impl<E: LoggedEvent> EventLog<E> {
    /// Opens or creates a log. An incomplete line that a crash left at the end is removed.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, EventLogError> {
        let path = path.into();
        let opened = read_events::<E>(&path).and_then(|(events, end)| {
            let file = OpenOptions::new().create(true).append(true).open(&path)?;
            file.set_len(end)?;
            let keys: Vec<String> =
                events.iter().map(|it| key(&it.event)).collect::<io::Result<_>>()?;
            Ok((file, keys))
        });
        let (file, keys) = opened.map_err(|source| EventLogError { path: path.clone(), source })?;
        let (next, last) = (keys.len() as u64 + 1, keys.last().cloned().unwrap_or_default());
        let logged = keys.into_iter().collect();
        Ok(Self { path, file, next, logged, last, _events: PhantomData })
    }

    /// Reads the events in all complete lines of a log. A missing file is an empty log.
    pub fn read(path: &Path) -> Result<Vec<NumberedEvent<E>>, EventLogError> {
        let error = |source| EventLogError { path: path.to_owned(), source };
        read_events(path).map(|it| it.0).map_err(error)
    }

    /// Appends an event and returns it with its sequence number, or `None` if it is a duplicate.
    pub fn append(&mut self, event: E) -> Result<Option<NumberedEvent<E>>, EventLogError> {
        self.append_event(event).map_err(|source| EventLogError { path: self.path.clone(), source })
    }

    fn append_event(&mut self, event: E) -> io::Result<Option<NumberedEvent<E>>> {
        let key = key(&event)?;
        let is_duplicate = match event.repetition() {
            Repetition::Never => self.logged.contains(&key),
            Repetition::AfterOtherEvents => self.last == key,
            Repetition::Always => false,
        };
        if is_duplicate {
            return Ok(None);
        }
        let now = DateTime::<Utc>::from(SystemTime::now());
        let at = now.to_rfc3339_opts(SecondsFormat::Millis, true);
        let numbered = NumberedEvent { seq: self.next, at, event };
        let line = escape_invisible_json(&serde_json::to_string(&numbered)?) + "\n";
        self.file.write_all(line.as_bytes())?;
        self.next += 1;
        self.last.clone_from(&key);
        self.logged.insert(key);
        Ok(Some(numbered))
    }
}

/// Returns the events in all complete lines and the offset after the last complete line.
fn read_events<E: LoggedEvent>(path: &Path) -> io::Result<(Vec<NumberedEvent<E>>, u64)> {
    let mut reader = LineReader::new(path);
    let lines = reader.read(u64::MAX)?;
    let event = |(number, line): (u64, &Vec<u8>)| {
        let invalid = |error| io::Error::other(format!("line {number}: {error}"));
        serde_json::from_slice(line).map_err(invalid)
    };
    let events = (1..).zip(&lines).map(event).collect::<io::Result<_>>()?;
    Ok((events, reader.position()))
}

fn key<E: Serialize>(event: &E) -> io::Result<String> {
    Ok(serde_json::to_string(event)?)
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use super::{EventLog, LoggedEvent, Repetition};

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(tag = "type", rename_all = "snake_case")]
    enum Event {
        Step { number: u8 },
        Failed { reason: String },
        Complete,
    }

    impl LoggedEvent for Event {
        fn repetition(&self) -> Repetition {
            match self {
                Self::Step { .. } => Repetition::Never,
                Self::Failed { .. } => Repetition::Always,
                Self::Complete => Repetition::AfterOtherEvents,
            }
        }
    }

    #[test]
    fn events_survive_a_crash_and_are_logged_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        let seq = |log: &mut EventLog<Event>, event| log.append(event).unwrap().map(|it| it.seq);
        let step = |number| Event::Step { number };
        let mut log = EventLog::open(&path).unwrap();
        assert_eq!(seq(&mut log, step(0)), Some(1));
        assert_eq!(seq(&mut log, step(1)), Some(2));
        drop(log);
        let mut bytes = std::fs::read(&path).unwrap();
        // Simulates a crash that cut off the last line in the middle of a character.
        bytes.extend("{\"seq\":3,\"reason\":\"é".as_bytes());
        bytes.pop();
        std::fs::write(&path, bytes).unwrap();

        let mut log = EventLog::open(&path).unwrap();
        assert_eq!(seq(&mut log, step(1)), None);
        assert_eq!(seq(&mut log, step(2)), Some(3));
        let read = EventLog::<Event>::read(&path).unwrap();
        assert_eq!(read.iter().map(|it| it.seq).collect::<Vec<_>>(), [1, 2, 3]);

        let failed = || Event::Failed { reason: "the model does not answer\u{202e}".to_owned() };
        assert_eq!(seq(&mut log, failed()), Some(4));
        drop(log);
        let mut log = EventLog::open(&path).unwrap();
        assert_eq!(seq(&mut log, failed()), Some(5));

        assert_eq!(seq(&mut log, Event::Complete), Some(6));
        assert_eq!(seq(&mut log, Event::Complete), None);
        assert_eq!(seq(&mut log, step(3)), Some(7));
        assert_eq!(seq(&mut log, Event::Complete), Some(8));

        // A complete but invalid line is an error, and the file is left unchanged.
        let text = std::fs::read_to_string(&path).unwrap().replacen("step", "stop", 1);
        assert!(!text.contains('\u{202e}'), "{text}");
        std::fs::write(&path, &text).unwrap();
        let error = EventLog::<Event>::open(&path).unwrap_err().to_string();
        assert!(error.contains("line 1"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
}
