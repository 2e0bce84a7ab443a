//! Record and replay: stores the calls of a run in a file, and later answers the same calls from the file.

mod compression;
mod file;
mod miss;
mod shared;

use std::{
    mem,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use self::file::{Contents, Outcome, Writer};
pub use self::{compression::RecordingDecoder, file::RecordingError};
use super::{
    key::{self, Key, Occurrences},
    redact::Redaction,
};
use crate::{
    Error, ErrorKind, Listener, Llm, Model, ModelId, Money, Request, Response, Usage, lock::lock,
};

/// Whether a recording makes calls, answers them from its file, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordMode {
    /// Makes all calls and does not access the file.
    Live,
    /// Makes all calls and writes them to a new file.
    Record,
    /// Makes no calls. All responses come from the file.
    Replay,
    /// Answers calls from the file if possible. If a call is not in the file or failed there, makes the call and
    /// appends it to the file.
    ///
    /// If a call in the file failed with a retryable error and another call with the same key follows, the failed
    /// call counts as an earlier attempt of the later one.
    ReplayOrRecord,
}

/// The recorded calls of a run, stored in a file. Clones share the same recording, and several models of a run can
/// use it.
///
/// The file is human-readable, unless it is [compressed](Self::compress). It has a header line and one JSON object per
/// call, with the request and the response or error. Messages and texts that a request repeats from earlier calls are
/// stored once; the request refers to them by number.
///
/// Calls are identified by a hash of the model and the request. Identical calls are matched by the order in
/// which they start, so concurrent calls get the same responses in a replay as long as identical calls start in the
/// same order.
///
/// Text that looks like an API key and [secrets registered for redaction](Self::hide) are redacted in the file. Apart
/// from that, a replayed response equals the recorded one exactly, including its latency.
///
/// ```
/// use llm::{ModelId, RecordMode, Recording};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// # let llm = llm::Llm::new(llm::Scripted::new("geographer", |_| "About 15 million years."));
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("debate.jsonl");
/// let recording = Recording::open(&path, RecordMode::ReplayOrRecord)?;
/// let answer = llm.record(&recording).generate("How old is the Rhine?").await?;
///
/// // Later, without an API key and without the network:
/// # drop(recording);
/// let recording = Recording::open(&path, RecordMode::Replay)?;
/// let llm = recording.model(ModelId::new("scripted", "geographer"));
/// assert_eq!(llm.generate("How old is the Rhine?").await?, answer);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Recording {
    redaction: Redaction,
    /// The open file, or `None` in mode [`RecordMode::Live`].
    file: Option<Arc<RecordingFile>>,
}

/// A call read from a recording.
pub(super) struct RecordedCall {
    pub(super) model: ModelId,
    pub(super) request: Request,
    pub(super) outcome: Result<Response, Error>,
    /// Token counts of the failed attempts that preceded the outcome and are billed. `None` if the provider did not
    /// report them.
    pub(super) failed_attempts: Vec<Option<Usage>>,
}

#[derive(Debug)]
struct RecordingFile {
    path: PathBuf,
    /// Contents of the file when it was opened.
    contents: Contents,
    occurrences: Occurrences,
    /// Appends new calls. `None` in mode [`RecordMode::Replay`].
    // A std mutex suffices, because it is locked only while a line is written and never across an await.
    writer: Option<Mutex<Writer>>,
}

impl Recording {
    /// Opens or creates a file, depending on the mode.
    ///
    /// A process that is killed while it writes leaves a partial last line. That line is ignored, and
    /// [`is_truncated`](Self::is_truncated) returns true. Any other damage to the file is an error.
    pub fn open(path: impl Into<PathBuf>, mode: RecordMode) -> Result<Self, RecordingError> {
        let path = path.into();
        let (contents, writer) = match mode {
            RecordMode::Live => return Ok(Self { redaction: Redaction::default(), file: None }),
            RecordMode::Record => (Contents::default(), Some(Writer::create(&path)?)),
            RecordMode::Replay => (Contents::read(&path)?, None),
            RecordMode::ReplayOrRecord => {
                let mut contents = Contents::read_if_exists(&path)?;
                contents.drop_retried();
                let writer = Writer::append(&path, &mut contents)?;
                (contents, Some(writer))
            }
        };
        let (occurrences, writer) = (Occurrences::default(), writer.map(Mutex::new));
        let file = Arc::new(RecordingFile { path, contents, occurrences, writer });
        Ok(Self { redaction: Redaction::default(), file: Some(file) })
    }

    /// Redacts a secret in all requests, responses and errors that are written to the file.
    ///
    /// Call this method before creating models from the recording. To replay, register the same secrets as when
    /// recording, because calls are matched by their redacted requests.
    pub fn hide(mut self, secret: impl Into<String>) -> Self {
        self.redaction.add_secret(secret.into());
        self
    }

    /// Compresses the calls that are written from now on, each with the calls before it as the dictionary.
    /// The file still has one line per call, and [`RecordingDecoder`] decodes its lines.
    ///
    /// Call this method before creating models from the recording.
    pub fn compress(mut self) -> Self {
        let file = self.file.as_mut().and_then(Arc::get_mut);
        if let Some(writer) = file.and_then(|it| it.writer.as_mut()) {
            writer.get_mut().unwrap_or_else(PoisonError::into_inner).compress();
        }
        self
    }

    /// Ignores the responses to the first `calls` calls of the file, so that these calls are made again. They still
    /// count in [`call_count`](Self::call_count) and are not removed from the file.
    ///
    /// Call this method before creating models from the recording.
    pub fn ignore_first(mut self, calls: usize) -> Self {
        if let Some(file) = self.file.as_mut().and_then(Arc::get_mut) {
            file.contents.index_from(calls);
            if file.writer.is_some() {
                file.contents.drop_retried();
            }
        }
        self
    }

    /// Repeats the calls whose recorded responses `is_unusable` rejects. The new responses replace the rejected ones,
    /// also in later replays. Has no effect on a replay, which makes no calls.
    ///
    /// Call this method before creating models from the recording.
    pub fn repeat(mut self, is_unusable: impl Fn(&Request, &Response) -> bool) -> Self {
        if let Some(file) = self.file.as_mut().and_then(Arc::get_mut) {
            for line in &mut file.contents.lines {
                let request = line.call.get("request").cloned().unwrap_or_default();
                line.is_repeated = match (&line.outcome, serde_json::from_value(request)) {
                    (Outcome::Response(response), Ok(request)) => is_unusable(&request, response),
                    _ => false,
                };
            }
        }
        self
    }

    /// Returns whether the file ended with a partial line when it was opened. Such a line is ignored. It means that the
    /// recording process was killed while it wrote the line.
    pub fn is_truncated(&self) -> bool {
        self.file.as_ref().is_some_and(|it| it.contents.is_truncated())
    }

    /// Waits until all calls that were written so far are on disk. Blocks the thread, usually for milliseconds.
    pub fn sync(&self) -> Result<(), RecordingError> {
        let Some(file) = &self.file else { return Ok(()) };
        let Some(writer) = &file.writer else { return Ok(()) };
        let opened = lock(writer).clone_file();
        let synced = opened.and_then(|it| it.sync_data());
        synced.map_err(|source| RecordingError::File { path: file.path.clone(), source })
    }

    /// Returns whether writing a call to the file failed. After such a failure, no later call is written either.
    pub fn has_write_failed(&self) -> bool {
        let writer = self.file.as_ref().and_then(|it| it.writer.as_ref());
        writer.is_some_and(|it| lock(it).has_failed())
    }

    /// Returns whether all responses come from the file and no calls are made.
    pub fn is_replay(&self) -> bool {
        self.file.as_ref().is_some_and(|it| it.writer.is_none())
    }

    /// Returns the number of calls that the file contained when it was opened, including failed calls.
    pub fn call_count(&self) -> usize {
        self.file.as_ref().map_or(0, |it| it.contents.lines.len())
    }

    /// Returns the calls that the file contained when it was opened, in order of completion, except for the first
    /// `skip` calls.
    pub(super) fn recorded_calls(&self, skip: usize) -> impl Iterator<Item = RecordedCall> {
        let lines = self.file.iter().flat_map(|it| &it.contents.lines);
        lines.skip(skip).filter_map(|line| {
            let field = |name: &str| line.call.get(name).cloned().unwrap_or_default();
            let model = serde_json::from_value(field("model")).ok()?;
            let request = serde_json::from_value(field("request")).ok()?;
            let (outcome, failed_attempts) =
                (line.outcome.to_result(), line.failed_attempts.clone());
            Some(RecordedCall { model, request, outcome, failed_attempts })
        })
    }

    /// Returns a text with secrets redacted, as it would be written to the file.
    ///
    /// ```
    /// # use llm::{RecordMode, Recording};
    /// let recording = Recording::open("", RecordMode::Live)?.hide("sesame");
    /// assert_eq!(recording.redacted("open sesame".to_owned()), "open [secret]");
    /// # Ok::<(), llm::RecordingError>(())
    /// ```
    pub fn redacted(&self, text: String) -> String {
        self.redaction.redact(&text).unwrap_or(text)
    }

    /// Returns the model, the token counts and the cost of each billed call that the file contained when it was opened,
    /// in order of completion, without the first `skip` calls. Calls with a response are billed, and so are failed
    /// attempts that were not [free](Error::is_free), including those that were [retried](Llm::retry).
    pub fn paid_calls(
        &self,
        skip: usize,
    ) -> impl Iterator<Item = (ModelId, Option<Usage>, Option<Money>)> {
        self.recorded_calls(skip).flat_map(
            |RecordedCall { model, outcome, failed_attempts, .. }| {
                let last = match outcome {
                    Ok(response) => Some((response.usage, response.cost)),
                    Err(error) => (!error.is_free()).then(|| (error.usage.map(|it| *it), None)),
                };
                let attempts = failed_attempts.into_iter().map(|it| (it, None)).chain(last);
                attempts.map(move |(usage, cost)| (model.clone(), usage, cost))
            },
        )
    }

    /// Returns the request and the response of each answered call that the file contained when it was opened, in order
    /// of completion.
    pub fn answered_calls(&self) -> impl Iterator<Item = (Request, Response)> {
        self.recorded_calls(0).filter_map(|it| Some((it.request, it.outcome.ok()?)))
    }

    /// Returns a model that answers calls only from the recording.
    pub fn model(&self, id: ModelId) -> Llm {
        Llm::new(NoModel(id)).record(self)
    }
}

impl RecordingFile {
    /// Returns the recorded outcome of the next call with this key. If the call must be made, returns its occurrence
    /// number as the error.
    fn lookup(&self, key: Key) -> Result<&Outcome, usize> {
        let nth = self.occurrences.next(key);
        let known = self.contents.with_key(key);
        match known.get(nth) {
            // Only a pure replay returns recorded failures. Otherwise the call is made again, because the cause may
            // have been fixed.
            Some(line)
                if (line.outcome.is_error() || line.is_repeated) && self.writer.is_some() =>
            {
                Err(line.occurrence)
            }
            Some(line) => Ok(&line.outcome),
            // Calls that were dropped before they completed left gaps in the occurrence numbers, so new numbers
            // start after the last recorded one.
            None => {
                let first_new = known.last().map_or(0, |it| it.occurrence + 1);
                Err(first_new + nth - known.len())
            }
        }
    }
}

impl Llm {
    /// Writes all calls to a recording or answers them from it, depending on the [`RecordMode`] of the recording.
    ///
    /// If this layer wraps [retries](Llm::retry), each call is written once, with its final outcome. If the retries
    /// wrap this layer, every attempt is written.
    pub fn record(self, recording: &Recording) -> Self {
        Self::new(RecordedModel { inner: self, recording: recording.clone() })
    }
}

#[derive(Debug)]
struct RecordedModel {
    inner: Llm,
    recording: Recording,
}

#[async_trait]
impl Model for RecordedModel {
    fn id(&self) -> ModelId {
        self.inner.id()
    }

    async fn call(
        &self,
        request: &Request,
        listener: &mut Listener<'_>,
    ) -> Result<Response, Error> {
        let Recording { redaction, file: Some(file) } = &self.recording else {
            return self.inner.call(request, listener).await;
        };
        let mut call = key::call_json(&self.id(), request);
        redaction.apply(&mut call);
        // The key is computed from the same bytes that are written to the file.
        let json = key::serialise(&call);
        let key = Key::of_json(&json);
        let occurrence = match file.lookup(key) {
            Ok(outcome) => return outcome.replay(listener),
            Err(occurrence) => occurrence,
        };
        let Some(writer) = &file.writer else {
            let message = miss::explain(&file.path, &file.contents, key, &call);
            return Err(Error::new(ErrorKind::NotRecorded, self.id(), message));
        };
        // If a retry layer wraps this layer, its earlier attempts are recorded as separate calls, not as attempts of
        // this call.
        let outer_attempts = mem::take(&mut listener.failed_attempts);
        let outcome = self.inner.call(request, listener).await;
        let failed_attempts = mem::replace(&mut listener.failed_attempts, outer_attempts);
        let mut stored = Outcome::stored(&outcome);
        redaction.apply(&mut stored);
        let written = lock(writer).add(key, occurrence, &call, &stored, &failed_attempts);
        written.map_err(|error| {
            let path = file.path.display();
            let message = format!("cannot write to {path}: {error}; the recording is incomplete");
            Error::new(ErrorKind::File, self.id(), message)
        })?;
        outcome
    }
}

/// A model that has only an id. Every call fails.
#[derive(Debug)]
struct NoModel(ModelId);

#[async_trait]
impl Model for NoModel {
    fn id(&self) -> ModelId {
        self.0.clone()
    }

    async fn call(&self, _: &Request, _: &mut Listener<'_>) -> Result<Response, Error> {
        let message =
            "the recording has no model that could make the call; wrap a model with `Llm::record`";
        Err(Error::new(ErrorKind::NotRecorded, self.id(), message))
    }
}
