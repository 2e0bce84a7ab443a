//! The file of a recording: JSON lines, to be read by people too.
//!
//! The first line says what ran on what, the last one holds the trace, and each line between them is one call.

use std::{
    cmp::Ordering,
    fs,
    path::{Path, PathBuf},
};

use graph_core::Recall;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::trace::{End, GraphTrace, Header, Trace};

/// All outside calls of a run with what they brought, and what the run did.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Recording {
    /// What ran, and on what.
    pub header: Header,
    /// The calls by place; those of one place in the order in which they came back.
    pub calls: Vec<Call>,
    /// What the run did.
    pub trace: Trace,
}

/// An outside call, and what it came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "CallLine", from = "CallLine")]
#[non_exhaustive]
pub struct Call {
    /// Where it was made: the way through steps, nodes and graphs.
    pub place: String,
    /// Its name and key.
    pub key: String,
    /// What it came to.
    pub outcome: Outcome,
}

/// What a call came to.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// It brought this.
    Came(Value),
    /// It failed.
    Failed {
        /// Its error in words.
        error: String,
        /// Whether the failure was final.
        terminal: bool,
    },
}

impl Outcome {
    pub(super) fn recall(&self) -> Recall {
        match self.clone() {
            Self::Came(value) => Recall::Came(value),
            Self::Failed { error, terminal } => Recall::Failed { error, terminal },
        }
    }
}

/// A recording that cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The file cannot be used.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A line is not what it should be.
    #[error("line {line} of the recording cannot be read: {source}")]
    Line {
        /// Which line: 1 for the first.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// The file ends too soon.
    #[error("the recording has no end: the run that made it was cut short; record it again")]
    Cut,
    /// The file is of another kind.
    #[error("the recording is of version {0}, and this is version {VERSION}; record it again")]
    Version(u32),
    /// The trace cannot be written as JSON.
    #[error("the recording cannot be written: {0}")]
    Encode(#[from] serde_json::Error),
}

/// The version of the file's form.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct FirstLine {
    recording: u32,
    #[serde(flatten)]
    header: Header,
}

/// A call as it stands in the file, where each line should be short and say the rare thing only when it happens.
#[derive(Serialize, Deserialize)]
struct CallLine {
    at: String,
    call: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    came: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    terminal: bool,
}

#[derive(Serialize, Deserialize)]
struct LastLine {
    #[serde(flatten)]
    root: GraphTrace,
    end: End,
}

impl From<Call> for CallLine {
    fn from(Call { place: at, key: call, outcome }: Call) -> Self {
        match outcome {
            Outcome::Came(value) => {
                Self { at, call, came: Some(value), failed: None, terminal: false }
            }
            Outcome::Failed { error, terminal } => {
                Self { at, call, came: None, failed: Some(error), terminal }
            }
        }
    }
}

impl From<CallLine> for Call {
    fn from(CallLine { at, call, came, failed, terminal }: CallLine) -> Self {
        let outcome = match failed {
            Some(error) => Outcome::Failed { error, terminal },
            // A result that is null reads as none.
            None => Outcome::Came(came.unwrap_or_default()),
        };
        Self { place: at, key: call, outcome }
    }
}

impl Recording {
    pub(super) fn new(trace: Trace, mut calls: Vec<Call>) -> Self {
        // Tasks that run at once finish in any order; the file shows none of that.
        calls.sort_by(|a, b| by_place(&a.place, &b.place));
        Self { header: trace.header.clone(), calls, trace }
    }

    /// Reads a recording.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, RecordingError> {
        let path = path.as_ref();
        let text = fs::read_to_string(path)
            .map_err(|source| RecordingError::File { path: path.to_owned(), source })?;
        Self::parse(&text)
    }

    /// Writes the recording to a file, in place of what it held.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), RecordingError> {
        let path = path.as_ref();
        fs::write(path, self.to_text()?)
            .map_err(|source| RecordingError::File { path: path.to_owned(), source })
    }

    /// A recording from what its file holds.
    pub fn parse(text: &str) -> Result<Self, RecordingError> {
        let lines: Vec<_> =
            text.lines().enumerate().filter(|(_, it)| !it.trim().is_empty()).collect();
        let [first, calls @ .., last] = lines.as_slice() else { return Err(RecordingError::Cut) };
        let FirstLine { recording, header } = parse_line(*first)?;
        if recording != VERSION {
            return Err(RecordingError::Version(recording));
        }
        let calls = calls.iter().map(|it| parse_line(*it)).collect::<Result<Vec<Call>, _>>()?;
        let last: LastLine = match parse_line::<Call>(*last) {
            Ok(_) => return Err(RecordingError::Cut),
            Err(_) => parse_line(*last)?,
        };
        let trace = Trace { header: header.clone(), root: last.root, end: last.end };
        Ok(Self { header, calls, trace })
    }

    /// What the recording's file holds.
    pub fn to_text(&self) -> Result<String, RecordingError> {
        let first = FirstLine { recording: VERSION, header: self.header.clone() };
        let mut lines = vec![serde_json::to_string(&first)?];
        for call in &self.calls {
            lines.push(serde_json::to_string(call)?);
        }
        let last = LastLine { root: self.trace.root.clone(), end: self.trace.end.clone() };
        lines.push(serde_json::to_string(&last)?);
        Ok(lines.join("\n") + "\n")
    }
}

fn parse_line<T: DeserializeOwned>((nth, line): (usize, &str)) -> Result<T, RecordingError> {
    serde_json::from_str(line).map_err(|source| RecordingError::Line { line: nth + 1, source })
}

/// Places in the order in which a run comes to them: numbers count as numbers.
pub(super) fn by_place(a: &str, b: &str) -> Ordering {
    chunks(a).cmp(chunks(b))
}

/// The runs of digits in a text as numbers, and all between them as text.
fn chunks(text: &str) -> impl Iterator<Item = (Option<u64>, &str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let digit = rest.chars().next()?.is_ascii_digit();
        let end = rest.find(|it: char| it.is_ascii_digit() != digit).unwrap_or(rest.len());
        let (chunk, after) = rest.split_at(end);
        rest = after;
        Some((chunk.parse().ok().filter(|_| digit), chunk))
    })
}
