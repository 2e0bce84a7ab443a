//! Layers: models that wrap another model, in any order.
//!
//! Each is built by a method of [`Llm`](crate::Llm), and the last one called is the outermost. Where the order
//! matters, the method says so.

pub use budget::{Budget, Spent};
pub use gate::{Gate, Pace};
pub use record::{RecordMode, Recording, RecordingError};
pub use retry::Backoff;

mod budget;
mod cache;
mod gate;
mod journal;
mod key;
mod record;
mod redact;
mod retry;
