//! The interface: a model answers a request.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{Error, Part, Reply, Request, Response, ToolCall};

/// A way to have requests answered: a provider's model, a script, a recording, or a layer over another model.
///
/// The one method does both plain and streamed calls, so that a layer is written once. A call ends when its
/// future is dropped: the connection is closed, and nothing more is read. Of an answer in pieces a provider then
/// bills about what it has written, and of a whole one often all of it.
#[async_trait]
pub trait Model: Send + Sync + fmt::Debug {
    /// Who answers.
    fn id(&self) -> ModelId;

    /// Answers a request, and tells the listener, if there is one, each piece as it comes.
    async fn call(&self, request: &Request, listener: &mut Listener<'_>)
    -> Result<Response, Error>;
}

/// A provider and one of its models.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ModelId {
    /// The provider's name, as `anthropic`.
    pub provider: String,
    /// The model's name, as the provider has it.
    pub model: String,
}

impl ModelId {
    /// A provider and one of its models.
    pub fn new(provider: impl Into<String>, model: impl Into<String>) -> Self {
        Self { provider: provider.into(), model: model.into() }
    }
}

impl fmt::Display for ModelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}

/// A piece of an answer that is still coming.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Piece {
    /// More words.
    Text(String),
    /// More of what the model thinks first.
    Reasoning(String),
    /// A tool that the model wants called, complete.
    ToolCall(ToolCall),
    /// The call starts over after a failure: all pieces before this one are void.
    Again,
}

/// Hears the pieces of an answer, or does not want them.
///
/// Whether somebody listens decides whether a provider is asked to stream.
pub struct Listener<'a> {
    hear: Option<&'a mut (dyn FnMut(Piece) + Send)>,
    heard: bool,
}

impl<'a> Listener<'a> {
    /// Hears every piece.
    pub fn new(hear: &'a mut (dyn FnMut(Piece) + Send)) -> Self {
        Self { hear: Some(hear), heard: false }
    }

    /// Wants the whole answer only.
    pub const fn deaf() -> Self {
        Self { hear: None, heard: false }
    }

    /// Whether pieces are wanted.
    pub fn is_listening(&self) -> bool {
        self.hear.is_some()
    }

    /// Tells a piece.
    pub fn tell(&mut self, piece: Piece) {
        if let Some(hear) = &mut self.hear {
            self.heard = piece != Piece::Again;
            hear(piece);
        }
    }

    /// Makes what was told so far void, if anything was: a failed call starts over.
    pub fn start_over(&mut self) {
        if self.heard {
            self.tell(Piece::Again);
        }
    }

    /// Tells a whole answer at once: for a model whose answer does not come in pieces.
    pub fn tell_all(&mut self, response: &Response) {
        self.tell_parts(&response.content);
    }

    /// Tells parts, but for thoughts of which the provider shows nothing: there is nothing to hear of them.
    pub(crate) fn tell_parts(&mut self, parts: &[Part]) {
        for part in parts {
            match part {
                Part::Text { text } => self.tell(Piece::Text(text.clone())),
                Part::Reasoning { text, .. } if text.is_empty() => {}
                Part::Reasoning { text, .. } => self.tell(Piece::Reasoning(text.clone())),
                Part::ToolCall(call) => self.tell(Piece::ToolCall(call.clone())),
                Part::ToolResult { .. } => {}
            }
        }
    }
}

impl fmt::Debug for Listener<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener")
            .field("is_listening", &self.is_listening())
            .finish_non_exhaustive()
    }
}

/// A model to hold and to hand around: a shared pointer with the methods that applications call.
#[derive(Clone, Debug)]
pub struct Llm {
    model: Arc<dyn Model>,
}

impl Llm {
    /// Holds a model.
    pub fn new(model: impl Model + 'static) -> Self {
        Self { model: Arc::new(model) }
    }

    /// Asks, and waits for the whole answer.
    pub async fn generate(&self, request: impl Into<Request>) -> Result<Response, Error> {
        self.call(&request.into(), &mut Listener::deaf()).await
    }

    /// Asks, and gives the answer piece by piece as it comes.
    pub fn stream(&self, request: impl Into<Request>) -> Reply {
        Reply::new(self.clone(), request.into())
    }
}

#[async_trait]
impl Model for Llm {
    fn id(&self) -> ModelId {
        self.model.id()
    }

    async fn call(
        &self,
        request: &Request,
        listener: &mut Listener<'_>,
    ) -> Result<Response, Error> {
        self.model.call(request, listener).await
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_whole_answer_is_told_as_a_streamed_one_is() {
        let thought = |text: &str, opaque| Part::Reasoning { text: text.to_owned(), opaque };
        let mut heard = Vec::new();
        let mut hear = |piece| heard.push(piece);
        Listener::new(&mut hear).tell_parts(&[
            thought("hm", None),
            thought("", Some(json!("sealed"))),
            Part::text("well"),
        ]);
        assert_eq!(heard, [Piece::Reasoning("hm".to_owned()), Piece::Text("well".to_owned())]);
    }
}
