//! One interface to language models.
//!
//! A [`Model`] has one method: it answers a [`Request`] with a [`Response`], and tells a [`Listener`] the
//! pieces of the answer as they come. Whatever stands between an application and a model is a model that
//! wraps another: retries, a rate gate, a budget, a cache, a recording, a journal. [`Llm`] is the handle that
//! applications hold: cheap to clone, with the methods that build these layers.
//!
//! ```
//! use llm::{Backoff, Budget, Gate, Llm, Pace, Rule, Script, Scripted};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
//! // In its place: `create_provider("anthropic", None, None)?`, with the key in ANTHROPIC_API_KEY.
//! let model = Llm::new(Scripted::new(Script::new("parrot").rule(Rule::text("Because of the air.")))?);
//! let (gate, budget) = (Gate::new(Pace::new(8)), Budget::of_tokens(20_000));
//! let llm = model.gate(&gate).budget(&budget).retry(Backoff::default());
//!
//! let response = llm.generate("Why is the sky blue?").await?;
//! assert_eq!(response.text(), "Because of the air.");
//! println!("{} has spent {} tokens", response.model, budget.spent().tokens);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A provider's model is bare: it asks once. The usual stack is the one above, from the inside out: the gate and the
//! budget see every attempt, the retries stand around them. A cache, a recording or a journal goes outside of these,
//! so that an answer which is known already waits for nothing and costs nothing.

#[cfg(feature = "local")]
pub use crate::local::LocalModel;
pub use crate::{
    catalog::{Catalog, CatalogEntry, Prices},
    error::{Error, ErrorKind, Phase},
    layer::{Backoff, Budget, Gate, Pace, RecordMode, Recording, RecordingError, Spent},
    message::{Message, Part, Role, ToolCall},
    model::{Listener, Llm, Model, ModelId, Piece},
    request::{Effort, Request, Schema, Tool, ToolChoice},
    response::{Finish, Money, Response, Usage},
    roles::{Cast, Roles, RolesError},
    scripted::{Rule, Script, ScriptError, Scripted},
    stream::Reply,
    structured::{
        Adjusted, JsonError, Reading, Rung, Structured, Unreadable, read_json, read_json_as,
    },
};
#[cfg(feature = "http")]
pub use crate::{
    http::{ClientError, Limits, Timeouts, http_client},
    provider::{Provider, SetupError, create_provider},
};
#[cfg(feature = "http")]
pub use secrecy::{ExposeSecret, SecretString};

mod catalog;
#[cfg(feature = "http")]
mod codec;
mod error;
#[cfg(feature = "http")]
mod http;
mod layer;
#[cfg(feature = "local")]
mod local;
mod lock;
mod message;
mod model;
pub mod overflow;
#[cfg(feature = "http")]
mod provider;
mod request;
mod response;
mod roles;
pub mod scripted;
mod stream;
mod structured;
#[cfg(feature = "testkit")]
pub mod testkit;
