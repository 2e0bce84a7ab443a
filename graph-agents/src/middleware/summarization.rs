//! Summarises old messages when a conversation grows long.

mod cut;
mod xml;

use std::sync::Arc;

use async_trait::async_trait;
use graph_core::{Context, NodeError};

use super::hooks::{Hooks, Middleware, ModelWrapper};
use crate::{
    AgentState,
    command::Update,
    message::{Message, TextMessage, TokenCounter, TrimOptions, trim_messages},
    model::{ChatModel, ChunkSink, Prompt, SharedModel},
};

const PROMPT: &str = "\
Summarise the conversation below. Keep everything that is needed to continue it: the user's goal, decisions, facts and \
open questions. Answer with the summary only.\n\n{messages}";

/// A size of a conversation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    /// Number of messages.
    Messages(usize),
    /// Number of tokens.
    Tokens(usize),
    /// Number of tokens, as a fraction of the maximum that the model accepts. The agent fails if that maximum is not
    /// known: set [`max_input_tokens`](crate::model::ModelProfile::max_input_tokens).
    Fraction(f64),
}

/// A [`Size`] in messages or tokens.
enum Limit {
    Messages(usize),
    Tokens(usize),
}

/// The error returned if a size is a fraction of the model's maximum and that maximum is not known.
#[derive(Debug, thiserror::Error)]
#[error(
    "the summarisation is set to {0} of the model's maximum number of input tokens, which is not known; set \
     `max_input_tokens` in the model's profile, or use `Size::Tokens`"
)]
struct UnknownMaximum(f64);

/// Replaces old messages with a summary when the conversation exceeds a size.
///
/// The newest messages are kept. A tool call is never separated from its results.
///
/// ```
/// use graph_agents::{
///     Agent, AiMessage, Message, ScriptedModel,
///     middleware::{Size, Summarization},
/// };
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let summaries = ScriptedModel::new([AiMessage::new("Ann likes tea.")]);
/// let agent = Agent::new(ScriptedModel::new([AiMessage::new("You are welcome.")]))
///     .middleware(
///         Summarization::new(summaries).trigger(Size::Messages(4)).keep(Size::Messages(1)),
///     )
///     .compile()?;
/// let messages = vec![
///     Message::human("I am Ann."),
///     Message::ai("Hello!"),
///     Message::human("I like tea."),
///     Message::ai("Me too."),
///     Message::human("Thanks."),
/// ];
/// let outcome = agent.run(messages).await?;
/// assert!(outcome.messages[0].text().contains("Ann likes tea."));
/// assert_eq!(outcome.messages.len(), 3);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Summarization {
    model: SharedModel,
    triggers: Vec<Vec<Size>>,
    keep: Size,
    counter: TokenCounter,
    prompt: String,
    trim_tokens: Option<usize>,
}

impl Summarization {
    /// Creates the middleware with the model that writes summaries. It does nothing until a trigger is added.
    pub fn new(model: impl ChatModel + 'static) -> Self {
        Self {
            model: Arc::new(model),
            triggers: Vec::new(),
            keep: Size::Messages(20),
            counter: TokenCounter::default(),
            prompt: PROMPT.to_owned(),
            trim_tokens: Some(4000),
        }
    }

    /// Summarises when the conversation reaches this size. If there are several triggers, any one of them suffices.
    pub fn trigger(self, size: Size) -> Self {
        self.trigger_all([size])
    }

    /// Summarises when the conversation reaches all of these sizes.
    pub fn trigger_all(mut self, sizes: impl IntoIterator<Item = Size>) -> Self {
        self.triggers.push(sizes.into_iter().collect());
        self
    }

    /// Sets how much of the conversation is kept.
    pub fn keep(mut self, size: Size) -> Self {
        self.keep = size;
        self
    }

    /// Sets how tokens are counted.
    pub fn counter(mut self, counter: TokenCounter) -> Self {
        self.counter = counter;
        self
    }

    /// Sets the prompt for the summary. `{messages}` is replaced with the messages to summarise.
    pub fn prompt(mut self, prompt: impl Into<String>) -> Self {
        self.prompt = prompt.into();
        self
    }

    /// Sets the maximum number of tokens to summarise. `None`: no limit.
    pub fn trim_tokens(mut self, tokens: Option<usize>) -> Self {
        self.trim_tokens = tokens;
        self
    }

    /// Converts a fraction of the model's maximum into a number of tokens.
    fn resolve(&self, size: Size) -> Result<Limit, UnknownMaximum> {
        Ok(match size {
            Size::Messages(messages) => Limit::Messages(messages),
            Size::Tokens(tokens) => Limit::Tokens(tokens),
            Size::Fraction(share) => {
                let max = self.model.profile().max_input_tokens.ok_or(UnknownMaximum(share))?;
                Limit::Tokens(((max as f64 * share) as usize).max(1))
            }
        })
    }

    /// Returns whether all sizes of a trigger are reached.
    fn is_triggered(&self, messages: &[Message]) -> Result<bool, UnknownMaximum> {
        let tokens = self.counter.count(messages);
        let mut triggered = false;
        for sizes in &self.triggers {
            let mut all_reached = true;
            for size in sizes {
                all_reached &= match self.resolve(*size)? {
                    Limit::Messages(limit) => messages.len() >= limit,
                    Limit::Tokens(limit) => tokens >= limit,
                };
            }
            triggered |= all_reached;
        }
        Ok(triggered)
    }

    /// Returns the number of messages to summarise.
    fn count_to_summarise(&self, messages: &[Message]) -> Result<usize, UnknownMaximum> {
        Ok(match self.resolve(self.keep)? {
            Limit::Messages(keep) => cut::by_messages(messages, keep),
            Limit::Tokens(limit) => {
                cut::by_tokens(messages, |part| self.counter.count(part) <= limit)
            }
        })
    }

    async fn summarize(&self, messages: &[Message]) -> Result<String, NodeError> {
        let options = TrimOptions {
            max_tokens: self.trim_tokens,
            max_messages: None,
            counter: self.counter.clone(),
            start_on_human: true,
        };
        let trimmed = match self.trim_tokens {
            Some(_) => trim_messages(messages, &options),
            None => messages.to_vec(),
        };
        if trimmed.is_empty() {
            return Ok("Previous conversation was too long to summarize.".to_owned());
        }
        let text = self.prompt.replace("{messages}", &xml::format(&trimmed));
        let prompt = Prompt { messages: vec![Message::human(text)].into(), ..Prompt::default() };
        let summary = self.model.call(&prompt, &mut ChunkSink::none()).await?;
        Ok(summary.content.text().trim().to_owned())
    }
}

#[async_trait]
impl Middleware for Summarization {
    fn name(&self) -> String {
        "SummarizationMiddleware".to_owned()
    }

    fn hooks(&self) -> Hooks {
        Hooks::new().before_model([])
    }

    fn with_wrapped_models(&self, wrap: &ModelWrapper) -> Option<Arc<dyn Middleware>> {
        Some(Arc::new(Self { model: wrap(self.model.clone()), ..self.clone() }))
    }

    async fn before_model(
        &self,
        state: &AgentState,
        _: &Context,
    ) -> Result<Option<Update>, NodeError> {
        let messages = state.messages();
        if !self.is_triggered(messages).map_err(NodeError::terminal)? {
            return Ok(None);
        }
        let cut = self.count_to_summarise(messages).map_err(NodeError::terminal)?;
        if cut == 0 {
            return Ok(None);
        }
        let (old, kept) = messages.split_at(cut);
        let summary = self.summarize(old).await?;
        let text = format!("Here is a summary of the conversation to date:\n\n{summary}");
        let mut summary = TextMessage::new(text);
        summary.source = Some("summarization".to_owned());
        let new = [Message::remove_all(), Message::Human(summary)];
        Ok(Some(Update::new().messages(new.into_iter().chain(kept.iter().cloned()))))
    }
}
