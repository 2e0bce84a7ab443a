//! Layers: models that wrap another model. They can be stacked in any order.
//!
//! Each layer is added by a method of [`Llm`](crate::Llm). The layer that is added last is the outermost. If the order
//! matters, the documentation of the method says so.

pub use budget::{Budget, Spending};
pub use rate_limit::{RateLimit, RateLimiter};
pub use record::{RecordMode, Recording, RecordingDecoder, RecordingError};
pub use retry::Backoff;

mod budget;
#[cfg(feature = "graph")]
mod cache;
#[cfg(feature = "graph")]
mod journal;
mod key;
mod rate_limit;
mod record;
mod redact;
mod retry;
