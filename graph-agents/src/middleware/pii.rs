//! Detects personal data in messages.

mod detect;
mod mask;

use std::{fmt, sync::Arc};

use async_trait::async_trait;
pub use detect::Detector;
use graph_core::{Context, NodeError};
use sha2::{Digest, Sha256};

use super::hooks::{Hooks, Middleware};
use crate::{
    AgentError, AgentState,
    command::{JumpTo, Update},
    message::{Content, Message},
    notation,
};

/// Treatment of detected personal data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PiiStrategy {
    /// Replaces the data with `[REDACTED_KIND]`.
    #[default]
    Redact,
    /// Replaces a part of the data with asterisks.
    Mask,
    /// Replaces the data with the start of its SHA-256 hash.
    Hash,
    /// Fails the run.
    Block,
}

/// Detects personal data of one kind in messages, and changes or blocks it.
///
/// The built-in kinds are `email`, `credit_card`, `ip`, `mac_address` and `url`. By default, the newest human message
/// is checked. Arguments of tool calls are never checked.
///
/// ```
/// use graph_agents::{
///     Agent, AiMessage, ScriptedModel,
///     middleware::{Pii, PiiStrategy},
/// };
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let agent = Agent::new(ScriptedModel::new([AiMessage::new("Thank you.")]))
///     .middleware(Pii::new("email")?.strategy(PiiStrategy::Redact))
///     .compile()?;
/// let outcome = agent.run("Write to ann@example.org.").await?;
/// assert_eq!(outcome.messages[0].text(), "Write to [REDACTED_EMAIL].");
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use]
pub struct Pii {
    kind: String,
    detector: Detector,
    strategy: PiiStrategy,
    input: bool,
    output: bool,
    tool_results: bool,
}

impl Pii {
    /// Creates the middleware for a built-in kind.
    pub fn new(kind: impl Into<String>) -> Result<Self, AgentError> {
        let kind = kind.into();
        let detector = detect::built_in(&kind).ok_or_else(|| {
            AgentError::value(format!(
                "Unknown PII type: {kind}. Must be one of {} or provide a custom detector.",
                notation::python_list(detect::KINDS)
            ))
        })?;
        Ok(Self::with_detector(kind, detector))
    }

    /// Creates the middleware for matches of a regular expression.
    pub fn with_pattern(kind: impl Into<String>, pattern: &str) -> Result<Self, AgentError> {
        let pattern = regex::Regex::new(pattern).map_err(|error| {
            AgentError::value(format!("invalid regular expression of a PII detector: {error}"))
        })?;
        let detector: Detector =
            Arc::new(move |text| pattern.find_iter(text).map(|it| it.range()).collect());
        Ok(Self::with_detector(kind, detector))
    }

    /// Creates the middleware with a detector.
    pub fn with_detector(kind: impl Into<String>, detector: Detector) -> Self {
        Self {
            kind: kind.into(),
            detector,
            strategy: PiiStrategy::Redact,
            input: true,
            output: false,
            tool_results: false,
        }
    }

    /// Sets the treatment of detected personal data.
    pub fn strategy(mut self, strategy: PiiStrategy) -> Self {
        self.strategy = strategy;
        self
    }

    /// Sets whether the newest human message is checked.
    pub fn apply_to_input(mut self, apply: bool) -> Self {
        self.input = apply;
        self
    }

    /// Sets whether the newest AI message is checked.
    pub fn apply_to_output(mut self, apply: bool) -> Self {
        self.output = apply;
        self
    }

    /// Sets whether the tool results after the newest AI message are checked.
    pub fn apply_to_tool_results(mut self, apply: bool) -> Self {
        self.tool_results = apply;
        self
    }

    fn replacement(&self, found: &str) -> String {
        match self.strategy {
            PiiStrategy::Redact | PiiStrategy::Block => {
                format!("[REDACTED_{}]", self.kind.to_uppercase())
            }
            PiiStrategy::Mask => mask::mask(&self.kind, found),
            PiiStrategy::Hash => {
                let hash = Sha256::digest(found.as_bytes());
                format!("<{}_hash:{}>", self.kind, hex::encode(&hash[..4]))
            }
        }
    }

    /// Returns the text with its personal data replaced, or `None` if the text contains no personal data.
    fn clean(&self, text: &str) -> Result<Option<String>, AgentError> {
        let found = (self.detector)(text);
        if found.is_empty() {
            return Ok(None);
        }
        if self.strategy == PiiStrategy::Block {
            // This is the wording of LangChain's error.
            let text =
                format!("Detected {} instance(s) of {} in text content", found.len(), self.kind);
            return Err(AgentError::named("PIIDetectionError", text));
        }
        let (mut clean, mut end) = (String::new(), 0);
        for range in found {
            clean.push_str(&text[end..range.start]);
            clean.push_str(&self.replacement(&text[range.clone()]));
            end = range.end;
        }
        clean.push_str(&text[end..]);
        Ok(Some(clean))
    }

    fn clean_content(&self, content: &Content) -> Result<Option<Content>, AgentError> {
        let mut error = None;
        let cleaned = content.map_text(|text| {
            self.clean(text).unwrap_or_else(|it| {
                error.get_or_insert(it);
                None
            })
        });
        error.map_or(Ok(cleaned), Err)
    }

    /// Replaces personal data in the messages at these positions. Returns an update with all messages if one changed.
    fn clean_messages(
        &self,
        messages: &[Message],
        positions: impl IntoIterator<Item = usize>,
    ) -> Result<Option<Update>, AgentError> {
        let mut all = messages.to_vec();
        let mut changed = false;
        for position in positions {
            let Some(content) = messages[position].content() else { continue };
            if let Some(content) = self.clean_content(content)? {
                all[position].set_content(content);
                changed = true;
            }
        }
        Ok(changed.then(|| Update::new().messages(all)))
    }
}

impl fmt::Debug for Pii {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pii")
            .field("kind", &self.kind)
            .field("strategy", &self.strategy)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Middleware for Pii {
    fn name(&self) -> String {
        format!("PIIMiddleware[{}]", self.kind)
    }

    fn hooks(&self) -> Hooks {
        Hooks::new().before_model([JumpTo::End]).after_model([JumpTo::End])
    }

    async fn before_model(
        &self,
        state: &AgentState,
        _: &Context,
    ) -> Result<Option<Update>, NodeError> {
        let messages = state.messages();
        let newest = messages.iter().rposition(|it| matches!(it, Message::Human(_)));
        let human = newest.filter(|_| self.input);
        let newest_ai = messages.iter().rposition(|it| it.as_ai().is_some());
        let after_ai = newest_ai.filter(|_| self.tool_results).map_or(messages.len(), |it| it + 1);
        let results = (after_ai..messages.len()).filter(|it| messages[*it].as_tool().is_some());
        Ok(self.clean_messages(messages, human.into_iter().chain(results))?)
    }

    async fn after_model(
        &self,
        state: &AgentState,
        _: &Context,
    ) -> Result<Option<Update>, NodeError> {
        let messages = state.messages();
        let newest = messages.iter().rposition(|it| it.as_ai().is_some());
        Ok(self.clean_messages(messages, newest.filter(|_| self.output))?)
    }
}
