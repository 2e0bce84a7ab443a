//! The inference engine, which answers one request at a time.

use std::path::Path;

use super::{
    answer_text::AnswerText,
    chat::ChatFormat,
    constraint::JsonConstraint,
    gguf::{ErrorMessage, Gguf},
    network::{KvCache, Network},
    sample::Sampler,
    vocabulary::Vocabulary,
};
use crate::{ErrorKind, Finish, Request, Usage};

/// A loaded model and its cached conversations.
pub(super) struct Engine {
    vocabulary: Vocabulary,
    chat: ChatFormat,
    network: Network,
    /// Cached conversations, most recently used first.
    conversations: Vec<Conversation>,
}

/// The tokens of a conversation that the network has processed, and their KV cache.
#[derive(Default)]
struct Conversation {
    tokens: Vec<u32>,
    kv_cache: KvCache,
}

/// Settings of a model.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) context_window: usize,
    pub(super) conversations: usize,
    pub(super) top_p: f64,
}

/// Receives the text of an answer. `is_closed` returns whether the caller has stopped waiting for the answer.
pub(super) trait TextSink {
    fn write(&mut self, text: &str);
    fn is_closed(&self) -> bool;
}

/// A complete answer.
#[derive(Debug)]
pub(super) struct Completion {
    pub(super) text: String,
    pub(super) finish: Finish,
    pub(super) usage: Usage,
}

/// Reason why a request was not answered.
#[derive(Debug)]
pub(super) enum Failure {
    /// The caller has stopped waiting for the answer.
    Cancelled,
    Failed(ErrorKind, String),
}

/// Number of prompt tokens to process in one batch. Cancellation is checked between batches.
const BATCH_TOKENS: usize = 64;

/// Default sampling temperature.
const TEMPERATURE: f64 = 0.7;

impl Engine {
    pub(super) fn load(path: &Path) -> Result<Self, ErrorMessage> {
        let mut gguf = Gguf::open(path)?;
        // The network is loaded first, because loading it gives the best error messages for unsupported files.
        let network = Network::load(&mut gguf)?;
        let vocabulary = Vocabulary::load(&gguf)?;
        let chat = ChatFormat::load(&gguf, &vocabulary)?;
        Ok(Self { vocabulary, chat, network, conversations: vec![] })
    }

    /// Returns the size of the context window that the model was trained for.
    pub(super) fn context(&self) -> usize {
        self.network.context()
    }

    pub(super) fn answer(
        &mut self,
        request: &Request,
        settings: Settings,
        sink: &mut impl TextSink,
    ) -> Result<Completion, Failure> {
        let prompt = self.prompt(request, settings)?;
        let mut conversation = self.take_best_conversation(&prompt, settings);
        let cached = conversation.tokens.len();
        let answer = self.generate(request, settings, &prompt, &mut conversation, sink);
        self.conversations.insert(0, conversation);
        let (text, finish, output) = answer?;
        let count = |tokens: usize| tokens as u64;
        let usage = Usage {
            input: count(prompt.len()),
            output: count(output),
            cached: count(cached),
            ..Usage::default()
        };
        Ok(Completion { text, finish, usage })
    }

    fn prompt(&self, request: &Request, settings: Settings) -> Result<Vec<u32>, Failure> {
        let bad = |message: String| Failure::Failed(ErrorKind::BadRequest, message);
        if !request.tools.is_empty() {
            return Err(bad(
                "local models do not support tools; ask for an answer with a schema".into()
            ));
        }
        let prompt = self.chat.tokens(request, &self.vocabulary).map_err(bad)?;
        let window = settings.context_window;
        if prompt.len() >= window {
            let message = format!(
                "the request has {} tokens, but the context window has {window}; shorten the conversation",
                prompt.len()
            );
            return Err(Failure::Failed(ErrorKind::RequestTooLong, message));
        }
        Ok(prompt)
    }

    /// Removes from the cache the conversation that has the longest common prefix with the prompt, and truncates it to
    /// that prefix. The prefix never includes the last token of the prompt, because that token must be processed to
    /// predict the first token of the answer.
    fn take_best_conversation(&mut self, prompt: &[u32], settings: Settings) -> Conversation {
        let prompt = &prompt[..prompt.len() - 1];
        let shared =
            |it: &Conversation| it.tokens.iter().zip(prompt).take_while(|(a, b)| a == b).count();
        let best = (0..self.conversations.len()).max_by_key(|at| shared(&self.conversations[*at]));
        // A conversation with only a short common prefix stays in the cache unchanged, as long as there is room for a
        // new conversation.
        let best = best.filter(|at| {
            let worth = shared(&self.conversations[*at]);
            2 * worth >= prompt.len() || 2 * worth >= self.conversations[*at].tokens.len()
        });
        let Some(best) = best else {
            self.conversations.truncate(settings.conversations.saturating_sub(1));
            return Conversation::default();
        };
        let mut conversation = self.conversations.remove(best);
        conversation.truncate(shared(&conversation));
        conversation
    }

    /// Processes the new part of the prompt and generates the answer.
    fn generate(
        &self,
        request: &Request,
        settings: Settings,
        prompt: &[u32],
        conversation: &mut Conversation,
        sink: &mut impl TextSink,
    ) -> Result<(String, Finish, usize), Failure> {
        let mut sampler =
            Sampler::new(request.temperature.unwrap_or(TEMPERATURE), settings.top_p, request.seed);
        let mut constraint = request.schema.as_ref().and_then(|it| JsonConstraint::new(&it.schema));
        if let (Some(schema), None, Some(true)) =
            (&request.schema, &constraint, request.strict_schema)
        {
            let message = format!(
                "the local model cannot enforce the schema `{}`; simplify the schema or remove `strict_schema(true)`",
                schema.name
            );
            return Err(Failure::Failed(ErrorKind::BadRequest, message));
        }
        let room = settings.context_window - prompt.len();
        let most = room.min(request.max_tokens as usize);
        let mut text = AnswerText::default();
        let mut written = 0;
        let mut next = prompt[conversation.tokens.len()..].to_vec();
        let finish = loop {
            if written == most {
                break Finish::Length;
            }
            let logits = self.process(&next, conversation, sink)?;
            let Some(token) = self.choose(&mut sampler, &logits, constraint.as_ref()) else {
                break Finish::Stop;
            };
            let Some(bytes) = self.vocabulary.bytes(token) else { break Finish::Stop };
            written += 1;
            let stopped = text.push(bytes, &request.stop);
            let is_complete = constraint.as_mut().is_some_and(|constraint| {
                constraint.push(bytes);
                constraint.is_complete()
            });
            if stopped || is_complete {
                break Finish::Stop;
            }
            sink.write(text.take_ready(&request.stop));
            next = vec![token];
        };
        sink.write(text.take_rest());
        Ok((text.into_text(), finish, written))
    }

    /// Chooses the next token. Returns `None` if the answer ends.
    fn choose(
        &self,
        sampler: &mut Sampler,
        logits: &[f32],
        constraint: Option<&JsonConstraint>,
    ) -> Option<u32> {
        let is_allowed = |token: u32| match (self.vocabulary.bytes(token), constraint) {
            (Some(bytes), Some(constraint)) => !bytes.is_empty() && constraint.accepts(bytes),
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => self.chat.is_end(token),
        };
        sampler.choose(logits, is_allowed)
    }

    fn process(
        &self,
        tokens: &[u32],
        conversation: &mut Conversation,
        sink: &impl TextSink,
    ) -> Result<Vec<f32>, Failure> {
        let failed = |error: candle_core::Error| {
            Failure::Failed(ErrorKind::File, format!("inference failed: {error}"))
        };
        let mut last = None;
        for batch in tokens.chunks(BATCH_TOKENS) {
            if sink.is_closed() {
                return Err(Failure::Cancelled);
            }
            last = Some(self.network.process(batch, &mut conversation.kv_cache).map_err(failed)?);
            conversation.tokens.extend(batch);
        }
        let last = last.expect("at least the last token of the prompt is processed");
        self.network.predict(&last).map_err(failed)
    }
}

impl Conversation {
    fn truncate(&mut self, length: usize) {
        self.tokens.truncate(length);
        self.kv_cache.truncate(length);
    }
}
