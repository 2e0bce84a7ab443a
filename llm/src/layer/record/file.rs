//! The recording file: a header line, then one line per call.

use std::{
    cmp::Reverse,
    collections::HashMap,
    fs::{File, OpenOptions},
    io::{self, Write},
    mem,
    path::{Path, PathBuf},
    time::SystemTime,
};

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::Value;

use super::{
    super::key::{self, Key},
    compression::RecordingDecoder,
    shared::SharedParts,
};
use crate::{Error, Listener, Response, Usage};

/// Version of new files. Since version 2, calls can [refer to parts](SharedParts) of earlier calls. Since version 3,
/// lines can be [compressed](RecordingDecoder).
const VERSION: u32 = 3;

/// The error returned when a recording cannot be opened.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The file cannot be read or written.
    #[error("cannot read or write the recording `{path}`: {source}")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// A new recording cannot be created because the file already exists.
    #[error(
        "`{0}` already exists; delete it to record again, or open it with `RecordMode::ReplayOrRecord`"
    )]
    Exists(PathBuf),
    /// A line of the file is invalid.
    #[error("`{path}`, line {line}, is not a valid line of a recording: {problem}")]
    InvalidLine {
        /// Path of the file.
        path: PathBuf,
        /// Line number, starting at 1.
        line: usize,
        /// Description of the problem.
        problem: String,
    },
}

crate::error_chain::readable_debug!(RecordingError);

/// First line of a recording file.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    llm_recording: u32,
    date: String,
}

/// A line of a recording file that describes a call.
#[derive(Debug)]
pub(super) struct Line {
    /// Number of the call in the file, starting at 1, in order of completion.
    pub(super) number: usize,
    pub(super) key: Key,
    /// Occurrence number among the calls with this key, starting at 0, in the order in which the calls started.
    pub(super) occurrence: usize,
    /// The model and the request, as JSON.
    pub(super) call: Value,
    /// The response or the error.
    pub(super) outcome: Outcome,
    /// Token counts of the failed attempts that preceded the outcome and are billed. `None` if the provider did not
    /// report them.
    pub(super) failed_attempts: Vec<Option<Usage>>,
    /// Whether the call is made again, although the file contains its outcome.
    pub(super) is_repeated: bool,
}

/// A line as it is stored.
#[derive(Debug, Deserialize)]
struct StoredLine {
    number: usize,
    #[serde(deserialize_with = "key")]
    key: Key,
    occurrence: usize,
    /// Whether `call` refers to parts of earlier calls.
    #[serde(default)]
    packed: bool,
    call: Value,
    outcome: Value,
    #[serde(default)]
    failed_attempts: Vec<Option<Usage>>,
}

/// Outcome of a call.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    Response(Response),
    Error(Error),
}

impl Outcome {
    /// Converts the outcome of a call to the JSON that is stored in the file. The fields are sorted by name, whether or
    /// not a crate in the program enables serde_json's `preserve_order`.
    pub(super) fn stored(outcome: &Result<Response, Error>) -> Value {
        let mut stored = match outcome {
            Ok(response) => serde_json::json!({ "response": response }),
            Err(error) => serde_json::json!({ "error": error }),
        };
        stored.sort_all_objects();
        stored
    }

    pub(super) fn is_error(&self) -> bool {
        matches!(self, Self::Error(_))
    }

    fn is_retryable(&self) -> bool {
        matches!(self, Self::Error(error) if error.is_retryable())
    }

    pub(super) fn to_result(&self) -> Result<Response, Error> {
        match self {
            Self::Response(response) => Ok(response.clone()),
            Self::Error(error) => Err(error.clone()),
        }
    }

    pub(super) fn replay(&self, listener: &mut Listener<'_>) -> Result<Response, Error> {
        let outcome = self.to_result();
        outcome.inspect(|response| listener.send_response(response))
    }
}

/// Parsed contents of a recording file.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) lines: Vec<Line>,
    /// Indices into `lines` for each key, in the order in which the calls started.
    by_key: HashMap<Key, Vec<usize>>,
    /// Number of bytes in complete lines.
    complete_bytes: u64,
    /// Number of bytes in the partial line after the complete lines. 0 if the file ends with a complete line.
    partial_bytes: u64,
    /// Parts of calls that new calls can refer to. `None` for a file of version 1, which has no references.
    shared: Option<SharedParts>,
    /// Decoder after the last complete line.
    decoder: RecordingDecoder,
}

impl Contents {
    /// Reads and parses a recording file.
    pub(super) fn read(path: &Path) -> Result<Self, RecordingError> {
        let bytes = std::fs::read(path).map_err(|source| file_error(path, source))?;
        Self::parse(path, &bytes)
    }

    /// Reads and parses a recording file. A file that does not exist or has no complete first line counts as empty.
    pub(super) fn read_if_exists(path: &Path) -> Result<Self, RecordingError> {
        match std::fs::read(path) {
            Ok(bytes) if bytes.contains(&b'\n') => Self::parse(path, &bytes),
            Ok(bytes) => Ok(Self { partial_bytes: bytes.len() as u64, ..Self::default() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(source) => Err(file_error(path, source)),
        }
    }

    fn parse(path: &Path, bytes: &[u8]) -> Result<Self, RecordingError> {
        // Each line is written together with its line feed, so bytes after the last line feed are a partial line.
        let complete_bytes = bytes.iter().rposition(|it| *it == b'\n').map_or(0, |it| it + 1);
        let partial_bytes = (bytes.len() - complete_bytes) as u64;
        let mut contents =
            Self { complete_bytes: complete_bytes as u64, partial_bytes, ..Self::default() };
        let lines = bytes[..complete_bytes].split_inclusive(|it| *it == b'\n');
        let mut lines = lines.map(|it| &it[..it.len() - 1]).zip(1..);
        let wrong =
            |line, problem| RecordingError::InvalidLine { path: path.to_owned(), line, problem };
        let (header, _) = lines.next().ok_or_else(|| wrong(1, "the file is empty".to_owned()))?;
        let version = read_version(header).map_err(|problem| wrong(1, problem))?;
        contents.decoder.add(header);
        let mut shared = SharedParts::default();
        for (line, number) in lines {
            let json = contents.decoder.decode(line);
            let line = json.and_then(|it| read_line(&it, &mut shared));
            contents.lines.push(line.map_err(|problem| wrong(number, problem))?);
        }
        contents.shared = (version > 1).then_some(shared);
        contents.index_from(0);
        Ok(contents)
    }

    /// Indexes the calls after the first `skipped` ones. The index does not contain the skipped calls.
    pub(super) fn index_from(&mut self, skipped: usize) {
        self.by_key.clear();
        for (nth, line) in self.lines.iter().enumerate().skip(skipped) {
            self.by_key.entry(line.key).or_default().push(nth);
        }
        for lines in self.by_key.values_mut() {
            // If a failed call was made again, several lines have the same occurrence number. Only the last one counts.
            lines.sort_by_key(|it| (self.lines[*it].occurrence, Reverse(*it)));
            lines.dedup_by_key(|it| self.lines[*it].occurrence);
        }
    }

    /// Removes from the index all retryable failures that were followed by another attempt.
    pub(super) fn drop_retried(&mut self) {
        for lines in self.by_key.values_mut() {
            let last = lines.last().copied();
            lines.retain(|it| Some(*it) == last || !self.lines[*it].outcome.is_retryable());
        }
    }

    /// Returns the calls with this key, in the order in which they started.
    pub(super) fn with_key(&self, key: Key) -> CallsWithKey<'_> {
        CallsWithKey { contents: self, lines: self.by_key.get(&key).map_or(&[], Vec::as_slice) }
    }

    pub(super) fn is_truncated(&self) -> bool {
        self.partial_bytes > 0
    }
}

/// The calls with one key.
pub(super) struct CallsWithKey<'a> {
    contents: &'a Contents,
    lines: &'a [usize],
}

impl<'a> CallsWithKey<'a> {
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

fn read_version(line: &[u8]) -> Result<u32, String> {
    let header: Header = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    match header.llm_recording {
        version @ 1..=VERSION => Ok(version),
        other => Err(format!("its version is {other}, but this program reads up to {VERSION}")),
    }
}

fn read_line(line: &[u8], shared: &mut SharedParts) -> Result<Line, String> {
    let problem = |error: serde_json::Error| error.to_string();
    let StoredLine { number, key, occurrence, packed, mut call, mut outcome, failed_attempts } =
        serde_json::from_slice(line).map_err(problem)?;
    if packed {
        call = shared.unpack(call)?;
        if Key::of_json(&key::serialise(&call)) != key {
            return Err("the call does not match its key".to_owned());
        }
    } else {
        shared.learn(&call);
    }
    // Sorts the fields as the writer did, because their order determines the numbers of the parts.
    outcome.sort_all_objects();
    shared.learn(&outcome);
    let outcome = serde_json::from_value(outcome).map_err(problem)?;
    Ok(Line { number, key, occurrence, call, outcome, failed_attempts, is_repeated: false })
}

/// Appends lines to a recording file.
#[derive(Debug)]
pub(super) struct Writer {
    file: File,
    next_number: usize,
    /// Parts of calls that new calls can refer to. `None` for a file of version 1, which has no references.
    shared: Option<SharedParts>,
    /// Encodes new lines.
    encoder: RecordingDecoder,
    /// Whether new lines are compressed.
    is_compressed: bool,
    /// Whether writing a line failed. Nothing is written after a failure, because it would be appended to a partial
    /// line.
    failed: bool,
}

impl Writer {
    /// Creates a new file, or returns an error if the file already exists.
    pub(super) fn create(path: &Path) -> Result<Self, RecordingError> {
        let file = OpenOptions::new().append(true).create_new(true).open(path);
        let file = file.map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => RecordingError::Exists(path.to_owned()),
            _ => file_error(path, source),
        })?;
        Self::write_header(path, file)
    }

    /// Opens a file and removes a partial last line, so that new lines are appended after the last complete one.
    /// Creates the file if it does not exist.
    pub(super) fn append(path: &Path, contents: &mut Contents) -> Result<Self, RecordingError> {
        let file = OpenOptions::new().append(true).create(true).open(path);
        let file = file.map_err(|source| file_error(path, source))?;
        if contents.is_truncated() {
            file.set_len(contents.complete_bytes).map_err(|source| file_error(path, source))?;
        }
        if contents.complete_bytes == 0 {
            return Self::write_header(path, file);
        }
        Ok(Self {
            next_number: contents.lines.len() + 1,
            shared: contents.shared.take(),
            encoder: mem::take(&mut contents.decoder),
            ..Self::new(file)
        })
    }

    fn new(file: File) -> Self {
        let (shared, encoder) = (Some(SharedParts::default()), RecordingDecoder::default());
        Self { file, next_number: 1, shared, encoder, is_compressed: false, failed: false }
    }

    fn write_header(path: &Path, file: File) -> Result<Self, RecordingError> {
        let mut writer = Self::new(file);
        let date = DateTime::<Utc>::from(SystemTime::now());
        let date = date.to_rfc3339_opts(SecondsFormat::Secs, true);
        let header = Header { llm_recording: VERSION, date };
        let line = serde_json::to_vec(&header).map_err(io::Error::from);
        line.and_then(|it| writer.write_line(it)).map_err(|source| file_error(path, source))?;
        Ok(writer)
    }

    /// Appends a call. The model and the request are given as JSON.
    pub(super) fn add(
        &mut self,
        key: Key,
        occurrence: usize,
        call: &Value,
        outcome: &Value,
        failed_attempts: &[Option<Usage>],
    ) -> io::Result<()> {
        let packed = self.shared.as_mut().and_then(|it| it.pack(call));
        if let Some(shared) = &mut self.shared {
            shared.learn(outcome);
        }
        let mut line = Vec::with_capacity(4096);
        let number = self.next_number;
        write!(line, r#"{{"number":{number},"key":"{key}","occurrence":{occurrence},"#)?;
        if packed.is_some() {
            line.extend_from_slice(br#""packed":true,"#);
        }
        line.extend_from_slice(br#""call":"#);
        serde_json::to_writer(&mut line, packed.as_ref().unwrap_or(call))?;
        line.extend_from_slice(br#","outcome":"#);
        serde_json::to_writer(&mut line, outcome)?;
        if !failed_attempts.is_empty() {
            line.extend_from_slice(br#","failed_attempts":"#);
            serde_json::to_writer(&mut line, failed_attempts)?;
        }
        line.push(b'}');
        self.write_line(line)?;
        self.next_number += 1;
        Ok(())
    }

    /// Returns another handle to the file.
    pub(super) fn clone_file(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Compresses the lines that are written from now on.
    pub(super) fn compress(&mut self) {
        self.is_compressed = true;
    }

    /// Returns whether writing a line failed.
    pub(super) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Writes a line with a single write call, so that a crash leaves at most one partial line.
    fn write_line(&mut self, mut line: Vec<u8>) -> io::Result<()> {
        if self.failed {
            return Err(io::Error::other("an earlier write failed"));
        }
        if self.is_compressed {
            line = self.encoder.encode(line);
        } else {
            self.encoder.add(&line);
        }
        line.push(b'\n');
        self.file.write_all(&line).inspect_err(|_| self.failed = true)
    }
}

fn file_error(path: &Path, source: io::Error) -> RecordingError {
    RecordingError::File { path: path.to_owned(), source }
}

/// Parses a key from hexadecimal digits.
fn key<'de, D: Deserializer<'de>>(json: D) -> Result<Key, D::Error> {
    String::deserialize(json)?.parse().map_err(de::Error::custom)
}
