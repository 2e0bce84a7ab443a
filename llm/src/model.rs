//! The model interface: [`Model`], [`Listener`] and the handle [`Llm`].

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{Error, InvalidToolCall, ModelId, Part, Request, Response, ToolCall, Usage};

/// A model: anything that answers requests, such as a provider's model, a script, a recording, or a layer around
/// another model.
///
/// One method serves both plain and streamed calls, so a layer has to be implemented only once. Dropping the future of
/// a call cancels the call and closes its connection. Providers bill a cancelled streamed response roughly up to the
/// last token sent, and a cancelled plain response often in full.
///
/// ```
/// use std::time::Duration;
/// use async_trait::async_trait;
/// use llm::{Error, Finish, Listener, Llm, Message, Model, ModelId, Part, Request, Response};
///
/// /// A model that repeats the last message.
/// #[derive(Debug)]
/// struct Echo;
///
/// #[async_trait]
/// impl Model for Echo {
///     fn id(&self) -> ModelId {
///         ModelId::new("local", "echo")
///     }
///
///     async fn call(
///         &self,
///         request: &Request,
///         listener: &mut Listener<'_>,
///     ) -> Result<Response, Error> {
///         let last = request.messages.last().map(Message::text).unwrap_or_default();
///         let response = Response {
///             content: vec![Part::text(last)],
///             model: self.id(),
///             finish: Finish::Stop,
///             usage: None,
///             latency: Duration::ZERO,
///             cost: None,
///             logprobs: Vec::new(),
///         };
///         listener.send_response(&response);
///         Ok(response)
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let response = Llm::new(Echo).generate("Hello!").await?;
/// assert_eq!(response.text(), "Hello!");
/// # Ok::<(), llm::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[async_trait]
pub trait Model: Send + Sync + fmt::Debug {
    /// Returns the names of the provider and the model.
    fn id(&self) -> ModelId;

    /// Answers a request. If the listener accepts pieces, sends it each piece of the response as the piece arrives.
    async fn call(&self, request: &Request, listener: &mut Listener<'_>)
    -> Result<Response, Error>;
}

/// A piece of a response that is still arriving.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Piece {
    /// More text.
    Text(String),
    /// More of the model's reasoning.
    Reasoning(String),
    /// A complete tool call.
    ToolCall(ToolCall),
    /// A tool call whose arguments cannot be parsed.
    InvalidToolCall(InvalidToolCall),
    /// The call failed and is being retried. The receiver must discard all earlier pieces.
    #[serde(rename = "again")]
    Restart,
}

/// Receives the pieces of a response, or ignores them.
///
/// The provider is asked to stream only if the listener accepts pieces.
pub struct Listener<'a> {
    on_piece: Option<&'a mut (dyn FnMut(Piece) + Send)>,
    has_sent: bool,
    /// Token counts of failed attempts that were retried and are billed. `None` if the provider did not report them.
    pub(crate) failed_attempts: Vec<Option<Usage>>,
}

impl<'a> Listener<'a> {
    /// Creates a listener that passes every piece to `on_piece`.
    pub fn new(on_piece: &'a mut (dyn FnMut(Piece) + Send)) -> Self {
        Self { on_piece: Some(on_piece), has_sent: false, failed_attempts: Vec::new() }
    }

    /// Creates a listener that ignores pieces, for callers that need only the whole response.
    pub const fn null() -> Self {
        Self { on_piece: None, has_sent: false, failed_attempts: Vec::new() }
    }

    /// Returns whether the listener accepts pieces.
    pub fn is_listening(&self) -> bool {
        self.on_piece.is_some()
    }

    /// Sends a piece to the receiver, if there is one.
    pub fn send(&mut self, piece: Piece) {
        if let Some(on_piece) = &mut self.on_piece {
            self.has_sent = piece != Piece::Restart;
            on_piece(piece);
        }
    }

    /// Sends [`Piece::Restart`] if any piece was sent since the call began. Called before a failed call is retried.
    pub fn restart(&mut self) {
        if self.has_sent {
            self.send(Piece::Restart);
        }
    }

    /// Sends a whole response at once, for models that do not stream.
    pub fn send_response(&mut self, response: &Response) {
        self.send_parts(&response.content);
    }

    /// Sends parts as pieces. Skips reasoning without text, because it contains only encrypted provider data.
    pub(crate) fn send_parts(&mut self, parts: &[Part]) {
        for part in parts {
            match part {
                Part::Text { text } => self.send(Piece::Text(text.clone())),
                Part::Reasoning { text, .. } if text.is_empty() => {}
                Part::Reasoning { text, .. } => self.send(Piece::Reasoning(text.clone())),
                Part::ToolCall(call) => self.send(Piece::ToolCall(call.clone())),
                Part::InvalidToolCall(call) => self.send(Piece::InvalidToolCall(call.clone())),
                Part::Media(_) | Part::ToolResult { .. } => {}
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

/// A shared handle to a model, with the methods that applications call.
///
/// ```
/// use llm::{Llm, Piece, Request, Scripted};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let llm = Llm::new(Scripted::new("parrot", |request: &Request| request.prompt().to_uppercase()));
///
/// let response = llm.generate("Hello!").await?;
/// assert_eq!(response.text(), "HELLO!");
///
/// let mut stream = llm.stream(Request::new("Good night!").max_tokens(100));
/// let mut streamed = String::new();
/// while let Some(piece) = stream.next().await {
///     match piece {
///         Piece::Text(text) => streamed += &text,
///         Piece::Restart => streamed.clear(),
///         Piece::Reasoning(_) | Piece::ToolCall(_) | Piece::InvalidToolCall(_) => {}
///     }
/// }
/// assert_eq!(streamed, "GOOD NIGHT!");
/// # Ok::<(), llm::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Llm {
    model: Arc<dyn Model>,
    #[cfg(feature = "graph")]
    pub(crate) nostream: bool,
}

impl Llm {
    /// Wraps a model.
    pub fn new(model: impl Model + 'static) -> Self {
        Self {
            model: Arc::new(model),
            #[cfg(feature = "graph")]
            nostream: false,
        }
    }

    /// Sends a request and returns the whole response.
    ///
    /// In a node of a graph whose run streams messages, the pieces of the response are also sent to the message stream
    /// as they arrive: see [`nostream`](Self::nostream).
    pub async fn generate(&self, request: impl Into<Request>) -> Result<Response, Error> {
        #[cfg(feature = "graph")]
        if let Some(cx) = self.message_stream() {
            return self.generate_to_stream(request.into(), &cx).await;
        }
        self.call(&request.into(), &mut Listener::null()).await
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
    fn hidden_reasoning_is_not_sent() {
        let thought = |text: &str, opaque| Part::Reasoning { text: text.to_owned(), opaque };
        let mut pieces = Vec::new();
        let mut on_piece = |piece| pieces.push(piece);
        Listener::new(&mut on_piece).send_parts(&[
            thought("hm", None),
            thought("", Some(json!("sealed"))),
            Part::text("well"),
        ]);
        assert_eq!(pieces, [Piece::Reasoning("hm".to_owned()), Piece::Text("well".to_owned())]);
    }
}
