//! The file format of recordings, which is human-readable JSON lines.
//!
//! The first line contains the graph and its input. The last line contains the trace. Each line in between is one
//! call.

use std::{
    cmp::Ordering,
    fs,
    path::{Path, PathBuf},
};

use graph_core::EffectDecision;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::trace::{GraphTrace, Header, RunStatus, Trace};

/// The external calls of a run with their results, and the trace of the run.
///
/// Create a recording with [`record_to`](crate::record_to) or with a [`Recorder`](crate::Recorder). It can be edited
/// before it is replayed, to see how the graph handles other results:
///
/// ```
/// use graph_core::{Context, NodeError, RunOptions, START, State, StateGraph};
/// use graph_trace::{CallOutcome, Recorder, record};
///
/// #[derive(State, Clone, Debug, Default)]
/// struct Weather {
///     advice: String,
/// }
///
/// async fn advise(_: &Weather, cx: &Context) -> Result<WeatherUpdate, NodeError> {
///     let report: String = cx.task("forecast", "Oslo", async { Ok("sunny".to_owned()) }).await?;
///     let advice = if report == "rain" { "take an umbrella" } else { "wear a hat" };
///     Ok(Weather::update().advice(advice))
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph = StateGraph::<Weather>::new().node(advise).edge(START, advise).compile()?;
/// let recorder = Recorder::new();
/// let options = RunOptions::new().effect_interceptor(recorder.clone());
/// let recorded = record(&graph, Weather::default(), (), options).await;
///
/// let mut recording = recorder.recording(&recorded.trace);
/// recording.calls[0].outcome = CallOutcome::Returned("rain".into());
/// let replayed = recording.replay(&graph, ()).await?;
/// assert_eq!(replayed.outcome?.state().advice, "take an umbrella");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Recording {
    /// The graph that ran and its input.
    pub header: Header,
    /// The calls, ordered by call site. Calls at the same call site are in order of completion.
    pub calls: Vec<RecordedCall>,
    /// The trace of the run.
    pub trace: Trace,
}

/// A recorded external call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "CallLine", from = "CallLine")]
#[non_exhaustive]
pub struct RecordedCall {
    /// Location at which the call was made: a path of steps, nodes and graphs.
    pub call_site: String,
    /// Full key of the call: its name, followed by the key that the caller passed.
    pub key: String,
    /// Outcome of the call.
    pub outcome: CallOutcome,
}

/// The outcome of an external call.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum CallOutcome {
    /// The call returned this value.
    Returned(Value),
    /// The call failed.
    Failed {
        /// The error message.
        error: String,
        /// Whether the failure was terminal.
        terminal: bool,
    },
}

impl CallOutcome {
    pub(super) fn before_call(&self) -> EffectDecision {
        match self.clone() {
            Self::Returned(value) => EffectDecision::Return(value),
            Self::Failed { error, terminal } => EffectDecision::Fail { error, terminal },
        }
    }
}

/// The error returned when a recording cannot be read or written.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The file cannot be read or written.
    #[error("cannot read or write recording {path}: {source}")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// The I/O error.
        source: std::io::Error,
    },
    /// A line is not valid JSON or has the wrong structure.
    #[error("cannot parse line {line} of the recording: {source}")]
    Line {
        /// Number of the line, starting at 1.
        line: usize,
        /// The JSON error.
        source: serde_json::Error,
    },
    /// The file is truncated.
    #[error("the recording is incomplete, because the run was aborted; record the run again")]
    Incomplete,
    /// The file has an unsupported format version.
    #[error(
        "the recording has format version {0}, but only version {VERSION} is supported; record the run again"
    )]
    Version(u32),
    /// The recording cannot be encoded as JSON.
    #[error("cannot encode the recording: {0}")]
    Encode(#[from] serde_json::Error),
}

graph_core::readable_debug!(RecordingError);

/// The version of the file format.
const VERSION: u32 = 2;

#[derive(Serialize, Deserialize)]
struct FirstLine {
    recording: u32,
    #[serde(flatten)]
    header: Header,
}

/// A call as stored in the file. Fields that are not set are omitted to keep lines short.
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
    end: RunStatus,
}

impl From<RecordedCall> for CallLine {
    fn from(RecordedCall { call_site: at, key: call, outcome }: RecordedCall) -> Self {
        match outcome {
            CallOutcome::Returned(value) => {
                Self { at, call, came: Some(value), failed: None, terminal: false }
            }
            CallOutcome::Failed { error, terminal } => {
                Self { at, call, came: None, failed: Some(error), terminal }
            }
        }
    }
}

impl From<CallLine> for RecordedCall {
    fn from(CallLine { at, call, came, failed, terminal }: CallLine) -> Self {
        let outcome = match failed {
            Some(error) => CallOutcome::Failed { error, terminal },
            // A result of `null` is deserialised as `None`.
            None => CallOutcome::Returned(came.unwrap_or_default()),
        };
        Self { call_site: at, key: call, outcome }
    }
}

impl Recording {
    pub(super) fn new(trace: Trace, mut calls: Vec<RecordedCall>) -> Self {
        // Concurrent tasks finish in an arbitrary order, which must not affect the file.
        calls.sort_by(|a, b| compare_call_sites(&a.call_site, &b.call_site));
        Self { header: trace.header.clone(), calls, trace }
    }

    /// Reads a recording from a file.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, RecordingError> {
        let path = path.as_ref();
        let text = fs::read_to_string(path)
            .map_err(|source| RecordingError::File { path: path.to_owned(), source })?;
        Self::parse(&text)
    }

    /// Writes the recording to a file. An existing file is overwritten.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), RecordingError> {
        let path = path.as_ref();
        fs::write(path, self.to_text()?)
            .map_err(|source| RecordingError::File { path: path.to_owned(), source })
    }

    /// Parses the content of a recording file.
    pub fn parse(text: &str) -> Result<Self, RecordingError> {
        let lines: Vec<_> =
            text.lines().enumerate().filter(|(_, it)| !it.trim().is_empty()).collect();
        let [first, calls @ .., last] = lines.as_slice() else {
            return Err(RecordingError::Incomplete);
        };
        let FirstLine { recording, header } = parse_line(*first)?;
        if recording != VERSION {
            return Err(RecordingError::Version(recording));
        }
        let calls =
            calls.iter().map(|it| parse_line(*it)).collect::<Result<Vec<RecordedCall>, _>>()?;
        let last: LastLine = match parse_line::<RecordedCall>(*last) {
            Ok(_) => return Err(RecordingError::Incomplete),
            Err(_) => parse_line(*last)?,
        };
        let trace = Trace { header: header.clone(), root: last.root, end: last.end };
        Ok(Self { header, calls, trace })
    }

    /// Returns the content of the recording file.
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

/// Compares two call sites for sorting in the order in which a run reaches them. Numbers in them are compared by value,
/// so step 10 comes after step 9.
pub(super) fn compare_call_sites(a: &str, b: &str) -> Ordering {
    chunks(a).cmp(chunks(b))
}

/// Splits a text into numbers and the texts between them.
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
