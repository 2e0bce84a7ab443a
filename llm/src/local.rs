//! Models that run inside the program: a GGUF file, no server, no key.
//!
//! The arithmetic is candle's, in Rust; the alternative was llama.cpp behind the crate `llama-cpp-2`. Tokens a
//! second of processor time on one thread, for reading a prompt of about 390 tokens / for writing 64:
//!
//! | model (GGUF)                     | here     | llama.cpp |
//! |----------------------------------|----------|-----------|
//! | SmolLM2 135M, `Q4_1`             | 65 / 24  | 89 / 37   |
//! | Qwen2.5-Coder 0.5B, `Q4_K_M`     | 24 / 9.0 | 45 / 13   |
//! | Qwen2.5-Coder 1.5B, `Q4_K_M`     | 34 / 4.4 | 26 / 6.5  |
//!
//! Each is one run on a busy machine, so they are good for an order and no more. And they flatter candle: it used the
//! processor's AVX-512 and AMX, where the llama.cpp was a wheel built for AVX2 (xllamacpp 2026.10.11549). One built
//! for the machine is faster still.
//!
//! So llama.cpp is the faster one, nearly always; but its crate was found to take 13 minutes of processor time to
//! build, and wants cmake, a C++ compiler and libclang, where candle wants cargo alone. That anybody can switch
//! the feature on weighed more. Who needs the speed runs llama.cpp's own server and asks it over HTTP.
//!
//! Two things had to be done for these numbers. candle has no fast code for some kinds of weights, which are
//! therefore rewritten when a model is opened: see [`gguf`]. And the network is put together here, in one file, in
//! place of the crate `candle-transformers`: its models keep what they remember to themselves, so they cannot go
//! back to where two conversations part.
//!
//! Answers with a [`Schema`](crate::Schema) are held to it token by token: see [`constraint`].

use std::{fmt, path::Path, sync::mpsc, thread, time::Instant};

use async_trait::async_trait;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use self::engine::{Completion, TextSink, Engine, Failure, Settings};
use crate::{Error, ErrorKind, Listener, Model, ModelId, Money, Part, Piece, Request, Response};

mod chat;
mod engine;
mod constraint;
mod gguf;
mod network;
mod sample;
mod vocabulary;
mod answer_text;

/// A model that is read from a GGUF file and runs on this machine's processor.
///
/// It answers one request at a time, on a thread of its own; others wait for their turn. A call whose future
/// is dropped ends before its next token.
///
/// ```no_run
/// # async fn demo() -> Result<(), llm::Error> {
/// use llm::{Llm, LocalModel, Request};
///
/// let model = Llm::new(LocalModel::open("qwen2.5-coder-1.5b-instruct-q4_k_m.gguf")?);
/// let answer = model.generate(Request::new("Name three rivers.").max_tokens(60)).await?;
/// println!("{}", answer.text());
/// # Ok(())
/// # }
/// ```
pub struct LocalModel {
    id: ModelId,
    settings: Settings,
    jobs: mpsc::Sender<Job>,
}

/// A request on its way to the model's thread.
struct Job {
    request: Request,
    settings: Settings,
    events: UnboundedSender<EngineEvent>,
}

/// What the model's thread says to whoever asked.
enum EngineEvent {
    Text(String),
    Finished(Result<Completion, Failure>),
}

impl LocalModel {
    /// The provider's name that local models go by.
    pub const PROVIDER: &'static str = "local";

    /// Reads a model into memory. That takes seconds, and blocks as long.
    ///
    /// The file says all that is needed: the network, the tokenizer and how a conversation is written.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy();
        let id = ModelId::new(Self::PROVIDER, name);
        let unusable = |message| Error::new(ErrorKind::File, id.clone(), message);
        let engine = Engine::load(path).map_err(unusable)?;
        let settings = Settings { context_window: engine.context(), conversations: 4, top_p: 0.95 };
        let (jobs, queue) = mpsc::channel();
        let thread = thread::Builder::new().name(format!("llm {}", id.model));
        let started = thread.spawn(move || work(engine, &queue));
        started.map_err(|error| unusable(format!("no thread for the model: {error}")))?;
        Ok(Self { id, settings, jobs })
    }

    /// Limits how many tokens a request and its answer may have together, at most what the model was made
    /// for, which is the default. A longer request is an error; a longer answer is cut.
    pub fn context_window(mut self, tokens: usize) -> Self {
        self.settings.context_window = self.settings.context_window.min(tokens);
        self
    }

    /// How many conversations the model remembers; by default four.
    ///
    /// A request that begins like one of them costs only what is new in it, and says so in
    /// [`Usage::cached`](crate::Usage::cached). A memory grows with its conversation, by doubling: Qwen2.5 takes
    /// 25 kB a token with half a billion weights, and 57 kB with one and a half.
    pub fn conversations(mut self, count: usize) -> Self {
        self.settings.conversations = count.max(1);
        self
    }

    /// Of the likeliest words how many may be chosen, as a share of all likelihood; by default 0.95.
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
            || self.error(ErrorKind::File, "the model's thread has died: open the file again");
        let job = Job { request: request.clone(), settings: self.settings, events };
        self.jobs.send(job).map_err(|_| dead())?;
        loop {
            match receiver.recv().await {
                Some(EngineEvent::Text(words)) => listener.send(Piece::Text(words)),
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
        }
    }
}

/// Answers as long as there is somebody who may ask.
fn work(mut engine: Engine, queue: &mpsc::Receiver<Job>) {
    while let Ok(Job { request, settings, mut events }) = queue.recv() {
        if !events.is_closed() {
            let answer = engine.answer(&request, settings, &mut events);
            // Nobody may be left to hear it.
            let _ = events.send(EngineEvent::Finished(answer));
        }
    }
}

impl TextSink for UnboundedSender<EngineEvent> {
    fn write(&mut self, words: &str) {
        if !words.is_empty() {
            let _ = self.send(EngineEvent::Text(words.to_owned()));
        }
    }

    fn is_closed(&self) -> bool {
        self.is_closed()
    }
}
