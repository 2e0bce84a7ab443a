//! What a run of a graph did, as data: to look at, to test against, to replay.
//!
//! A [`Trace`] is made from a run's events. It is the same for the same run however its tasks interleave, on one
//! thread or on many, on any machine, and whether the run crashed on its way or not: it holds each step's tasks in an
//! order of their own and shows no ids, times or addresses unless asked.
//!
//! - **Look**: [`record`] runs a graph, [`record_thread`] a thread; [`Trace::text`] is for people.
//! - **Test**: [`assert_trace_snapshot!`] compares a run with the one that was approved, [`Redactions`] hide what is
//!   another value each time, and [`Trace::diff`] says where two runs part.
//! - **Replay**: [`record_to`] keeps all that a run's outside calls brought, and [`Recording::replay`] runs the graph
//!   on it without making one.
//!
//! ```
//! use graph_core::{RunOptions, START, State, StateGraph};
//! use graph_trace::{Detail, Shape};
//!
//! #[derive(State, Clone, Debug, Default)]
//! struct Essay {
//!     topic: String,
//!     text: String,
//! }
//!
//! async fn write(essay: &Essay) -> EssayUpdate {
//!     Essay::update().text(format!("On {}", essay.topic))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let graph = StateGraph::<Essay>::new().node(write).edge(START, write).compile()?;
//! let essay = Essay { topic: "tea".into(), ..Essay::default() };
//! let recorded = graph_trace::record(&graph, essay, (), RunOptions::new()).await;
//! assert_eq!(
//!     recorded.trace.text(Shape::new(Detail::Updates)),
//!     r#"input {"text":"","topic":"tea"}
//! step 1
//!   write
//!     text <- "On tea"
//! done
//! "#
//! );
//! # Ok(())
//! # }
//! ```

mod build;
mod debugger;
mod diff;
mod html;
mod place;
mod record;
mod redact;
mod reduce;
mod replay;
#[cfg(feature = "insta")]
mod snapshot;
mod text;
mod timeline;
mod trace;

pub use build::TraceBuilder;
pub use debugger::{Debugger, ForkError};
pub use diff::{Divergence, FieldChange, Part, RouteChange, Summary};
pub use place::{Place, StepPlace, TaskPlace};
pub use record::{Recorded, record, record_thread};
pub use redact::Redactions;
pub use replay::{
    Call, LeftRecording, Outcome, Recorder, Recording, RecordingError, Replayed, Replayer, Stray,
    record_to,
};
#[cfg(feature = "insta")]
pub use snapshot::Snapshot;
pub use text::{Detail, Shape};
pub use trace::{
    EffectTrace, End, GraphTrace, Header, Retry, SendTrace, StepTrace, TaskTrace, Timing, Trace,
};

/// What the code written by `assert_trace_snapshot!` calls. Not part of the API.
#[cfg(feature = "insta")]
#[doc(hidden)]
pub mod __private {
    pub use graph_core::RunOptions;
    pub use insta;

    pub use crate::snapshot::settings;
}
