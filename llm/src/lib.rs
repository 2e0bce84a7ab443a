//! One interface to the language models of all providers.
//!
//! A [`Model`] answers a [`Request`] with a [`Response`] and sends the pieces of the response to a [`Listener`] as they
//! arrive. Retries, rate limiting, a budget, a cache, a recording and a journal are layers: models that wrap another
//! model. Applications use [`Llm`], a handle that is cheap to clone and has methods that add these layers.
//!
//! ```
//! use llm::{Backoff, Budget, Llm, RateLimit, RateLimiter, Scripted};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
//! // For a real provider: `create_provider("anthropic", None, None)?`, with the API key in ANTHROPIC_API_KEY.
//! let model = Llm::new(Scripted::new("parrot", |_| "Because of the air."));
//! let (limiter, budget) = (RateLimiter::new(RateLimit::new(8)), Budget::of_tokens(20_000));
//! let llm = model.rate_limit(&limiter).budget(&budget).retry(Backoff::default());
//!
//! let response = llm.generate("Why is the sky blue?").await?;
//! assert_eq!(response.text(), "Because of the air.");
//! println!("{} has spent {} tokens", response.model, budget.spent().tokens);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A provider's model sends each request once. The example above adds the layers in the usual order, from the inside
//! out: the retries wrap the rate limiter and the budget, so these two see every attempt. Add a cache, a recording or a
//! journal after these layers, so that a stored response neither waits nor costs anything. The cache and the journal
//! need the feature `graph`.
//!
//! The book's chapter [Models](../book/models.html) is a guide; `cargo xtask book` renders it.

#[cfg(feature = "local")]
pub use crate::local::LocalModel;
pub use crate::{
    attachment::Attachment,
    catalog::{Catalog, CatalogEntry, Prices},
    embedding::{Embedder, EmbeddingModel, Embeddings, ScriptedEmbeddings},
    error::{Error, ErrorKind, Phase},
    layer::{
        Backoff, Budget, RateLimit, RateLimiter, RecordMode, Recording, RecordingDecoder,
        RecordingError, Spending,
    },
    media::{Media, MediaKind, MediaSource},
    message::{Message, Part, Role},
    model::{Listener, Llm, Model, Piece},
    model_id::ModelId,
    request::{Effort, ProviderTool, Request, Schema, Tool, ToolChoice, WebSearch},
    response::{Finish, Money, Response, TokenLogprob, Usage},
    scripted::{Reply, Scripted},
    stream::ResponseStream,
    structured::{
        Adjustment, JsonError, ParseMethod, Parsed, Structured, UnreadableError, read_json,
        read_json_as,
    },
    tool_call::{InvalidToolCall, ToolCall},
};
#[cfg(feature = "http")]
pub use crate::{
    http::{ClientError, Limits, Timeouts, http_client},
    provider::{Provider, SetupError, create_provider},
};
#[cfg(feature = "http")]
pub use secrecy::{ExposeSecret, SecretString};

mod attachment;
mod catalog;
#[cfg(feature = "http")]
mod codec;
mod embedding;
mod error;
mod error_chain;
mod excerpt;
#[cfg(feature = "http")]
mod http;
mod layer;
#[cfg(feature = "local")]
mod local;
mod lock;
mod media;
mod message;
#[cfg(feature = "graph")]
mod message_stream;
mod model;
mod model_id;
pub mod overflow;
#[cfg(feature = "http")]
mod provider;
mod request;
mod response;
mod scripted;
mod stream;
mod structured;
#[cfg(feature = "testkit")]
pub mod testkit;
mod tool_call;
