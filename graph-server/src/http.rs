//! What every HTTP server here needs, whatever it serves.

mod body;
mod document;
mod events;
mod guard;
mod key;
mod metrics;
mod page;
mod problem;
mod rate;
mod request;

pub use body::{Body, Params, Path};
pub use events::{EventStreams, Message, Place, stream};
pub use guard::{Guard, Guarded};
pub use key::{KeyHash, KeyHashError, ShortKey};
pub use metrics::Metrics;
pub use page::{Asset, page};
pub use problem::{Problem, ProblemBody, ProblemDetail};
