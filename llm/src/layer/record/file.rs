//! The file of a recording: a line for itself, then a line a call.

use std::{
    cmp::Reverse,
    collections::HashMap,
    fs::{File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    time::SystemTime,
};

use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::Value;

use super::super::key::Key;
use crate::{Error, Listener, Response};

const VERSION: u32 = 1;

/// A recording that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The file cannot be read or written.
    #[error("the recording `{path}` cannot be used: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// There is a recording where a new one was to be made.
    #[error(
        "`{0}` exists already; remove it to record anew, or open it with `RecordMode::ReplayOrRecord`"
    )]
    Exists(PathBuf),
    /// A line does not hold what it has to.
    #[error("`{path}`, line {line}, is not of a recording: {problem}")]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
}

/// The line of the file itself.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    llm_recording: u32,
    date: String,
}

/// The line of a call.
#[derive(Debug, Deserialize)]
pub(super) struct Line {
    /// Which of the file's calls it is, from 1, in the order in which they ended.
    pub(super) number: usize,
    #[serde(deserialize_with = "key")]
    pub(super) key: Key,
    /// Which of the calls with this key it is, from 0, in the order in which they were begun.
    pub(super) occurrence: usize,
    /// What was asked of whom.
    pub(super) call: Value,
    /// What came of it.
    pub(super) outcome: Outcome,
}

/// What came of a call.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    Response(Response),
    Error(Error),
}

impl Outcome {
    /// The form in the file.
    pub(super) fn stored(outcome: &Result<Response, Error>) -> Value {
        match outcome {
            Ok(response) => serde_json::json!({ "response": response }),
            Err(error) => serde_json::json!({ "error": error }),
        }
    }

    pub(super) fn is_error(&self) -> bool {
        matches!(self, Self::Error(_))
    }

    fn is_retryable(&self) -> bool {
        matches!(self, Self::Error(error) if error.is_retryable())
    }

    pub(super) fn as_result(&self) -> Result<Response, Error> {
        match self {
            Self::Response(response) => Ok(response.clone()),
            Self::Error(error) => Err(error.clone()),
        }
    }

    pub(super) fn replay(&self, listener: &mut Listener<'_>) -> Result<Response, Error> {
        let outcome = self.as_result();
        outcome.inspect(|response| listener.tell_all(response))
    }
}

/// What a file holds.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) lines: Vec<Line>,
    /// Where the calls of a key are, in the order in which they were begun.
    by_key: HashMap<Key, Vec<usize>>,
    /// How many bytes whole lines have, and how many half a line after them.
    whole: u64,
    torn: u64,
}

impl Contents {
    /// Reads a file.
    pub(super) fn read(path: &Path) -> Result<Self, RecordingError> {
        let bytes = std::fs::read(path).map_err(|source| unusable(path, source))?;
        Self::parse(path, &bytes)
    }

    /// Reads a file; one that is missing, or has not got as far as its first line, holds nothing.
    pub(super) fn read_if_there(path: &Path) -> Result<Self, RecordingError> {
        match std::fs::read(path) {
            Ok(bytes) if bytes.contains(&b'\n') => Self::parse(path, &bytes),
            Ok(bytes) => Ok(Self { torn: bytes.len() as u64, ..Self::default() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(source) => Err(unusable(path, source)),
        }
    }

    fn parse(path: &Path, bytes: &[u8]) -> Result<Self, RecordingError> {
        // The end of a line is written with the line, so what stands after the last one is torn.
        let whole = bytes.iter().rposition(|it| *it == b'\n').map_or(0, |it| it + 1);
        let torn = (bytes.len() - whole) as u64;
        let mut contents = Self { whole: whole as u64, torn, ..Self::default() };
        let mut lines = bytes[..whole].split_inclusive(|it| *it == b'\n').zip(1..);
        let wrong = |line, problem| RecordingError::Line { path: path.to_owned(), line, problem };
        let (header, _) = lines.next().ok_or_else(|| wrong(1, "the file is empty".to_owned()))?;
        check_header(header).map_err(|problem| wrong(1, problem))?;
        for (line, number) in lines {
            let line = serde_json::from_slice(line).map_err(|it| wrong(number, it.to_string()))?;
            contents.lines.push(line);
        }
        contents.index();
        Ok(contents)
    }

    fn index(&mut self) {
        for (nth, line) in self.lines.iter().enumerate() {
            self.by_key.entry(line.key).or_default().push(nth);
        }
        for lines in self.by_key.values_mut() {
            // Of a call that failed and was made again, the last line counts.
            lines.sort_by_key(|it| (self.lines[*it].occurrence, Reverse(*it)));
            lines.dedup_by_key(|it| self.lines[*it].occurrence);
        }
    }

    /// Leaves out failures that were followed by another try, whose answer is what counts.
    pub(super) fn without_retried(mut self) -> Self {
        for lines in self.by_key.values_mut() {
            let last = lines.last().copied();
            lines.retain(|it| Some(*it) == last || !self.lines[*it].outcome.is_retryable());
        }
        self
    }

    /// The calls with this key, in the order in which they were begun.
    pub(super) fn with_key(&self, key: Key) -> WithKey<'_> {
        WithKey { contents: self, lines: self.by_key.get(&key).map_or(&[], Vec::as_slice) }
    }

    pub(super) fn is_torn(&self) -> bool {
        self.torn > 0
    }
}

/// The calls of a file that have one key.
pub(super) struct WithKey<'a> {
    contents: &'a Contents,
    lines: &'a [usize],
}

impl<'a> WithKey<'a> {
    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    pub(super) fn get(&self, nth: usize) -> Option<&'a Line> {
        self.lines.get(nth).map(|it| &self.contents.lines[*it])
    }

    pub(super) fn last(&self) -> Option<&'a Line> {
        self.lines.last().map(|it| &self.contents.lines[*it])
    }
}

fn check_header(line: &[u8]) -> Result<(), String> {
    let header: Header = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    match header.llm_recording {
        VERSION => Ok(()),
        other => Err(format!("its version is {other}, and this program reads {VERSION}")),
    }
}

/// Adds lines to a file.
#[derive(Debug)]
pub(super) struct Writer {
    file: File,
    next: usize,
    /// Whether a line could not be written: what came after it would stand in the middle of it.
    broken: bool,
}

impl Writer {
    /// Begins a new file.
    pub(super) fn create(path: &Path) -> Result<Self, RecordingError> {
        let file = OpenOptions::new().append(true).create_new(true).open(path);
        let file = file.map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => RecordingError::Exists(path.to_owned()),
            _ => unusable(path, source),
        })?;
        Self::begin(path, file)
    }

    /// Goes on with a file after its last whole line, or begins it.
    pub(super) fn append(path: &Path, contents: &Contents) -> Result<Self, RecordingError> {
        let file = OpenOptions::new().append(true).create(true).open(path);
        let file = file.map_err(|source| unusable(path, source))?;
        if contents.is_torn() {
            file.set_len(contents.whole).map_err(|source| unusable(path, source))?;
        }
        if contents.whole == 0 {
            return Self::begin(path, file);
        }
        Ok(Self { file, next: contents.lines.len() + 1, broken: false })
    }

    fn begin(path: &Path, file: File) -> Result<Self, RecordingError> {
        let mut writer = Self { file, next: 1, broken: false };
        let header = Header { llm_recording: VERSION, date: date(SystemTime::now()) };
        let line = serde_json::to_vec(&header).map_err(io::Error::from);
        line.and_then(|it| writer.line(it)).map_err(|source| unusable(path, source))?;
        Ok(writer)
    }

    /// Adds a call, which is JSON already.
    pub(super) fn add(
        &mut self,
        key: Key,
        occurrence: usize,
        call: &[u8],
        outcome: &Value,
    ) -> io::Result<()> {
        let mut line = Vec::with_capacity(call.len() + 1024);
        let number = self.next;
        write!(line, r#"{{"number":{number},"key":"{key}","occurrence":{occurrence},"call":"#)?;
        line.extend_from_slice(call);
        line.extend_from_slice(br#","outcome":"#);
        serde_json::to_writer(&mut line, outcome)?;
        line.push(b'}');
        self.line(line)?;
        self.next += 1;
        Ok(())
    }

    /// Whether a line could not be written.
    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Writes a line in one go, so that at most its end is missing if the process dies.
    fn line(&mut self, mut line: Vec<u8>) -> io::Result<()> {
        if self.broken {
            return Err(io::Error::other("an earlier call could not be written"));
        }
        line.push(b'\n');
        self.file.write_all(&line).inspect_err(|_| self.broken = true)
    }
}

fn unusable(path: &Path, source: io::Error) -> RecordingError {
    RecordingError::File { path: path.to_owned(), source }
}

/// The day and time, as `2026-11-15T09:30:00Z`.
fn date(time: SystemTime) -> String {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |it| it.as_secs());
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Years begin in March here, so that the leap day is their last; day 0 is the first of March of year 0.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (year, month) = match month {
        0..10 => (400 * era + year_of_era, month + 3),
        _ => (400 * era + year_of_era + 1, month - 9),
    };
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// A key from its digits.
fn key<'de, D: Deserializer<'de>>(json: D) -> Result<Key, D::Error> {
    String::deserialize(json)?.parse().map_err(de::Error::custom)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[track_caller]
    fn check(seconds: u64, expect: &str) {
        assert_eq!(date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)), expect);
    }

    #[test]
    fn dates() {
        check(0, "1970-01-01T00:00:00Z");
        check(951_782_399, "2000-02-28T23:59:59Z");
        check(951_782_400, "2000-02-29T00:00:00Z");
        check(1_709_164_800, "2024-02-29T00:00:00Z");
        check(1_794_734_130, "2026-11-15T09:15:30Z");
        check(4_107_542_400, "2100-03-01T00:00:00Z");
    }
}
