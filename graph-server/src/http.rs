//! Building blocks of HTTP servers: extractors, authentication, request limits, event streams, metrics and error
//! responses.

mod auth;
mod body;
mod client_network;
mod event_page;
mod events;
mod guard;
mod key;
mod metrics;
mod openapi;
mod page;
mod probe;
mod problem;
mod rate_limiter;
mod request_log;
mod stream_limit;

pub use auth::{
    ApiKeys, AuthError, Authenticator, Client, JwksError, Jwt, JwtOptions, Scope, UnknownScope,
};
pub(crate) use body::read_json;
pub use body::{Body, Params, Path};
pub use client_network::ClientNetwork;
pub use event_page::{EventPage, EventsQuery};
pub use events::{LastEventId, Message, stream_events};
pub use guard::{Guard, Guarded};
pub use key::{KeyHash, KeyHashError, ShortKeyError};
pub use metrics::Metrics;
pub use page::{Asset, page, single_page};
pub(crate) use probe::is_probe;
pub use problem::{Problem, ProblemBody, ProblemDetail};
pub use stream_limit::StreamLimit;
