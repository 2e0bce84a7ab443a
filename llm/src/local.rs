//! Models that run inside the program, from a GGUF file, without a server or an API key.
//!
//! This module uses candle, which is written in Rust. The alternative was llama.cpp through the crate `llama-cpp-2`.
//! The table compares tokens per second of CPU time on one OS thread. The first number is for processing a prompt of
//! about 390 tokens, the second one for generating 64 tokens:
//!
//! | model (GGUF)                     | here     | llama.cpp |
//! |----------------------------------|----------|-----------|
//! | SmolLM2 135M, `Q4_1`             | 65 / 24  | 89 / 37   |
//! | Qwen2.5-Coder 0.5B, `Q4_K_M`     | 24 / 9.0 | 45 / 13   |
//! | Qwen2.5-Coder 1.5B, `Q4_K_M`     | 34 / 4.4 | 26 / 6.5  |
//!
//! Each value is from a single run on a busy machine and indicates only the order of magnitude. The comparison favours
//! candle, which used AVX-512 and AMX, while llama.cpp was a wheel built for AVX2 (xllamacpp 2026.10.11549). A native
//! build of llama.cpp is even faster.
//!
//! llama.cpp is thus almost always faster. However, its crate takes 13 minutes of CPU time to build and requires
//! cmake, a C++ compiler and libclang, while candle requires only cargo. Ease of building was considered more
//! important, because users who need speed can run llama.cpp's server and call it over HTTP.
//!
//! Weights with quantizations for which candle has no fast code are converted when a model is opened; see [`gguf`].
//!
//! The network is implemented here, in one file, because the networks of the crate `candle-transformers` (0.11) lack
//! what this module promises. Their KV caches are private and can only be cleared, so conversations cannot share a
//! prefix. Llama is limited to 4,096 tokens, ignores the rotation factors of Llama 3.1 and later, and keeps every
//! attention mask that it has computed. The weights cannot be converted before they are used.
//!
//! If a request has a [`Schema`](crate::Schema), the response is constrained to the schema token by token; see
//! [`constraint`]. The crate `llguidance` (1.9) supports more schemas, but it enables the feature `preserve_order` of
//! serde_json, which changes the order of the fields in all JSON of the whole program. A program with local models
//! could then not find the cached and recorded calls of a program without them.

use std::{fmt, path::Path, sync::mpsc, thread, time::Instant};

use async_trait::async_trait;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use self::engine::{Completion, Engine, Failure, Settings, TextSink};
use crate::{Error, ErrorKind, Listener, Model, ModelId, Money, Part, Piece, Request, Response};

mod answer_text;
mod chat;
mod constraint;
mod engine;
mod gguf;
mod network;
mod sample;
mod vocabulary;

/// A model from a GGUF file that runs on this machine's CPU.
///
/// Answers one request at a time on its own OS thread; other requests wait. If the future of a call is dropped, the
/// call stops before its next token.
///
/// ```no_run
/// # async fn demo() -> Result<(), llm::Error> {
/// use llm::{Llm, LocalModel, Request};
///
/// let model = Llm::new(LocalModel::open("qwen2.5-coder-1.5b-instruct-q4_k_m.gguf")?);
/// let answer = model.generate(Request::new("Name three rivers.").max_tokens(60)).await?;
/// println!("{}", answer.text());
/// # Ok(()) }
/// ```
pub struct LocalModel {
    id: ModelId,
    settings: Settings,
    jobs: mpsc::Sender<Job>,
}

/// A request to the OS thread of the model.
struct Job {
    request: Request,
    settings: Settings,
    events: UnboundedSender<EngineEvent>,
}

/// An event that the OS thread of the model sends to the caller.
enum EngineEvent {
    Text(String),
    Finished(Result<Completion, Failure>),
}

impl LocalModel {
    /// Provider name of local models.
    pub const PROVIDER: &'static str = "local";

    /// Loads a model from a GGUF file into memory. This blocks for several seconds.
    ///
    /// The file must contain the network, the tokenizer and the chat template, as GGUF files normally do.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let id = Self::id_of(path);
        let unusable = |message| Error::new(ErrorKind::File, id.clone(), message);
        let engine = Engine::load(path).map_err(unusable)?;
        let settings = Settings { context_window: engine.context(), conversations: 4, top_p: 0.95 };
        let (jobs, queue) = mpsc::channel();
        let thread = thread::Builder::new().name(format!("llm {}", id.model));
        let started = thread.spawn(move || run_jobs(engine, &queue));
        started
            .map_err(|error| unusable(format!("cannot start a thread for the model: {error}")))?;
        Ok(Self { id, settings, jobs })
    }

    /// Reads the size of the context window that a model was trained for, in tokens, from its GGUF file. Does not load
    /// the model.
    pub fn trained_context(path: impl AsRef<Path>) -> Result<u64, Error> {
        let path = path.as_ref();
        let gguf = gguf::Gguf::open(path).and_then(|it| it.number("context_length"));
        let context =
            gguf.map_err(|message| Error::new(ErrorKind::File, Self::id_of(path), message))?;
        Ok(context as u64)
    }

    fn id_of(path: &Path) -> ModelId {
        let name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy();
        ModelId::new(Self::PROVIDER, name)
    }

    /// Limits the context window to this many tokens, for request and response together. The default, which is also
    /// the maximum, is the size that the model was trained for. A request that does not fit is an error; a response
    /// that does not fit is truncated.
    pub fn context_window(mut self, tokens: usize) -> Self {
        self.settings.context_window = self.settings.context_window.min(tokens);
        self
    }

    /// Sets the number of conversations whose KV caches are kept. Four by default.
    ///
    /// If a request starts with the same tokens as a kept conversation, only the rest of the request has to be
    /// processed; see [`Usage::cached`](crate::Usage::cached). The capacity of a cache doubles when the cache is full.
    /// The cache of Qwen2.5 needs 25 kB per token for the model with 0.5 billion parameters, and 57 kB per token for
    /// the model with 1.5 billion.
    pub fn conversations(mut self, count: usize) -> Self {
        self.settings.conversations = count.max(1);
        self
    }

    /// Sets the parameter of nucleus sampling: tokens are chosen from the most likely ones that together have this
    /// share of the total probability. 0.95 by default.
    pub fn top_p(mut self, share: f64) -> Self {
        self.settings.top_p = share;
        self
    }

    fn error(&self, kind: ErrorKind, message: impl Into<String>) -> Error {
        Error::new(kind, self.id.clone(), message)
    }
}

impl fmt::Debug for LocalModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalModel")
            .field("id", &self.id)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Model for LocalModel {
    fn id(&self) -> ModelId {
        self.id.clone()
    }

    async fn call(
        &self,
        request: &Request,
        listener: &mut Listener<'_>,
    ) -> Result<Response, Error> {
        let start = Instant::now();
        let (events, mut receiver) = unbounded_channel();
        let dead =
            || self.error(ErrorKind::File, "the model's thread has panicked; open the file again");
        let job = Job { request: request.clone(), settings: self.settings, events };
        self.jobs.send(job).map_err(|_| dead())?;
        loop {
            match receiver.recv().await {
                Some(EngineEvent::Text(text)) => listener.send(Piece::Text(text)),
                Some(EngineEvent::Finished(Ok(answer))) => return Ok(self.response(answer, start)),
                Some(EngineEvent::Finished(Err(Failure::Failed(kind, message)))) => {
                    return Err(self.error(kind, message));
                }
                Some(EngineEvent::Finished(Err(Failure::Cancelled))) | None => return Err(dead()),
            }
        }
    }
}

impl LocalModel {
    fn response(&self, answer: Completion, start: Instant) -> Response {
        Response {
            content: vec![Part::text(answer.text)],
            model: self.id.clone(),
            finish: answer.finish,
            usage: Some(answer.usage),
            latency: start.elapsed(),
            cost: Some(Money::ZERO),
            logprobs: Vec::new(),
        }
    }
}

/// Answers requests until the model is dropped.
fn run_jobs(mut engine: Engine, queue: &mpsc::Receiver<Job>) {
    while let Ok(Job { request, settings, mut events }) = queue.recv() {
        if !events.is_closed() {
            let answer = engine.answer(&request, settings, &mut events);
            // Ignore the error, because the caller may have dropped the call.
            let _ = events.send(EngineEvent::Finished(answer));
        }
    }
}

impl TextSink for UnboundedSender<EngineEvent> {
    fn write(&mut self, text: &str) {
        if !text.is_empty() {
            let _ = self.send(EngineEvent::Text(text.to_owned()));
        }
    }

    fn is_closed(&self) -> bool {
        self.is_closed()
    }
}
