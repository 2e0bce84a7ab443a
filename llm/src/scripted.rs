//! A model whose answers come from a closure, for tests, demonstrations and runs without an API key.

use std::{fmt, sync::Mutex, time::Duration};

use async_trait::async_trait;
use serde_json::Value;
use tokio::time::sleep;

use crate::{
    Error, ErrorKind, Finish, Listener, Model, ModelId, Money, Part, Piece, Request, Response,
    Usage,
    lock::lock,
    overflow::{estimate_tokens, text_tokens},
};

/// A model that answers each request with the result of a closure.
///
/// The closure reads the prompt, or typed data that the caller [attached](Request::attach) to the request, and returns
/// anything that converts to a [`Reply`]. The provider name of such a model is `scripted`, and its calls are free.
///
/// ```
/// use llm::{ErrorKind, Llm, Reply, Request, Scripted};
/// use serde_json::json;
///
/// /// The debate so far, which the judge reads instead of the prompt.
/// struct Debate {
///     doubts: u8,
/// }
///
/// let judge = Scripted::new("judge", |request: &Request| match request.attached::<Debate>() {
///     Some(Debate { doubts }) => Reply::from(json!({ "impact": 10 - doubts })),
///     None if request.prompt().contains("Introduce yourself") => Reply::from("I am the judge."),
///     None => Reply::from(ErrorKind::Refused),
/// });
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let llm = Llm::new(judge);
/// let verdict = llm.generate(Request::new("Judge the debate.").attach(Debate { doubts: 3 })).await?;
/// assert_eq!(verdict.text(), r#"{"impact":7}"#);
/// assert_eq!(verdict.model.to_string(), "scripted/judge");
/// assert_eq!(llm.generate("Introduce yourself.").await?.text(), "I am the judge.");
/// assert_eq!(llm.generate("Hello?").await.unwrap_err().kind, ErrorKind::Refused);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Scripted {
    name: String,
    delay: Duration,
    reply: Box<dyn Fn(&Request) -> Reply + Send + Sync>,
}

/// The reply of a [`Scripted`] model to one request.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// Text, which is truncated at the request's stop sequences and token limit.
    Text(String),
    /// A tool call.
    ToolCall {
        /// Name of the tool.
        name: String,
        /// Arguments of the call. Unless they are an object or JSON text of an object, the call is
        /// [invalid](Part::InvalidToolCall).
        arguments: Value,
    },
    /// A failed call.
    Failure {
        /// Kind of the error.
        kind: ErrorKind,
        /// Message of the error.
        message: String,
    },
}

impl Scripted {
    /// Provider name of scripted models.
    pub const PROVIDER: &'static str = "scripted";

    /// Creates a model that answers with the result of `reply`.
    pub fn new<R: Into<Reply>>(
        name: impl Into<String>,
        reply: impl Fn(&Request) -> R + Send + Sync + 'static,
    ) -> Self {
        let reply = Box::new(move |request: &Request| reply(request).into());
        Self { name: name.into(), delay: Duration::ZERO, reply }
    }

    /// Creates a model that gives these replies, one per call. After the last one, every call fails.
    pub fn replies<R: Into<Reply>>(
        name: impl Into<String>,
        replies: impl IntoIterator<Item = R>,
    ) -> Self {
        let replies: Vec<Reply> = replies.into_iter().map(Into::into).collect();
        let replies = Mutex::new(replies.into_iter());
        Self::new(name, move |_| {
            let no_reply = || {
                Reply::failure(
                    ErrorKind::BadRequest,
                    "the script has no replies left; add a reply for this call",
                )
            };
            lock(&replies).next().unwrap_or_else(no_reply)
        })
    }

    /// Sets the delay before each reply.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }
}

impl Reply {
    /// Creates a failed call.
    pub fn failure(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self::Failure { kind, message: message.into() }
    }
}

impl From<&str> for Reply {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Reply {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Value> for Reply {
    /// Creates a reply that consists of this JSON.
    fn from(json: Value) -> Self {
        Self::Text(json.to_string())
    }
}

impl From<ErrorKind> for Reply {
    fn from(kind: ErrorKind) -> Self {
        Self::failure(kind, "simulated by the script")
    }
}

#[async_trait]
impl Model for Scripted {
    fn id(&self) -> ModelId {
        ModelId::new(Self::PROVIDER, &*self.name)
    }

    async fn call(
        &self,
        request: &Request,
        listener: &mut Listener<'_>,
    ) -> Result<Response, Error> {
        if !self.delay.is_zero() {
            sleep(self.delay).await;
        }
        let (part, finish) = match (self.reply)(request) {
            Reply::Text(text) => {
                let (text, finish) = truncate(text, request);
                for word in text.split_inclusive(char::is_whitespace) {
                    listener.send(Piece::Text(word.to_owned()));
                }
                (Part::text(text), finish)
            }
            Reply::ToolCall { name, arguments } => {
                let id = format!("call_{}", request.messages.len());
                let call = Part::tool_call(id, name, &arguments, None);
                listener.send_parts(std::slice::from_ref(&call));
                (call, Finish::ToolCalls)
            }
            Reply::Failure { kind, message } => return Err(Error::new(kind, self.id(), message)),
        };
        Ok(Response {
            usage: Some(usage(request, &part)),
            content: vec![part],
            model: self.id(),
            finish,
            latency: self.delay,
            cost: Some(Money::ZERO),
            logprobs: Vec::new(),
        })
    }
}

/// Truncates a text at the first stop sequence, and after the last whole word within the token limit.
fn truncate(mut text: String, request: &Request) -> (String, Finish) {
    let stops = request.stop.iter().filter(|it| !it.is_empty());
    if let Some(end) = stops.filter_map(|it| text.find(it.as_str())).min() {
        text.truncate(end);
    }
    let limit = u64::from(request.max_tokens);
    if text_tokens(Scripted::PROVIDER, &text) <= limit {
        return (text, Finish::Stop);
    }
    let (mut end, mut tokens) = (0, 0);
    for word in text.split_inclusive(char::is_whitespace) {
        tokens += text_tokens(Scripted::PROVIDER, word);
        if tokens > limit {
            break;
        }
        end += word.len();
    }
    text.truncate(end);
    (text, Finish::Length)
}

fn usage(request: &Request, part: &Part) -> Usage {
    let output = match part {
        Part::Text { text } => text_tokens(Scripted::PROVIDER, text),
        Part::ToolCall(call) => text_tokens(Scripted::PROVIDER, &call.arguments.to_string()),
        Part::InvalidToolCall(call) => text_tokens(Scripted::PROVIDER, &call.arguments),
        Part::Reasoning { .. } | Part::Media(_) | Part::ToolResult { .. } => 0,
    };
    let input = estimate_tokens(Scripted::PROVIDER, request);
    Usage { input, output, ..Usage::default() }
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scripted").field("name", &self.name).finish_non_exhaustive()
    }
}
