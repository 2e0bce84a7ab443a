//! Records traces of graph runs for inspection, snapshot tests and replay.
//!
//! A [`Trace`] is built from the events of a run. It is deterministic, which means that it does not depend on how
//! tasks interleave, on the number of OS threads, on the machine, or on crashes and resumes. The tasks in each step
//! are in a fixed order, and ids, times and addresses are not shown by default.
//!
//! - **Inspect**: [`record`] runs a graph and [`record_thread`] a thread; [`Trace::text`] renders the trace for
//!   people.
//! - **Test**: [`assert_trace_snapshot!`] compares a run with an approved snapshot, [`Redactions`] hide values that
//!   differ from run to run, and [`Trace::diff`] shows where two runs diverge.
//! - **Replay**: [`record_to`] stores the results of all external calls of a run, and [`Recording::replay`] runs
//!   the graph with these results instead of making the calls.
//!
//! ```
//! use graph_core::{RunOptions, START, State, StateGraph};
//! use graph_trace::{Detail, TextOptions};
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
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let graph = StateGraph::<Essay>::new().node(write).edge(START, write).compile()?;
//! let essay = Essay { topic: "tea".into(), ..Essay::default() };
//! let recorded = graph_trace::record(&graph, essay, (), RunOptions::new()).await;
//! assert_eq!(
//!     recorded.trace.text(TextOptions::new(Detail::Updates)),
//!     r#"input {"text":"","topic":"tea"}
//! step 1
//!   write
//!     text <- "On tea"
//! done
//! "#
//! );
//! # Ok(()) }
//! ```
//!
//! The book's chapter [Traces and snapshot tests](../book/traces.html) is a guide; `cargo xtask book` renders it.

mod build;
mod debugger;
mod diff;
mod html;
mod path;
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
pub use diff::{DiffSummary, Divergence, DivergenceKind, FieldChange, RouteChange};
pub use path::{StepPath, TaskPath, TracePath};
pub use record::{RecordedRun, record, record_thread};
pub use redact::Redactions;
pub use replay::{
    CallOutcome, RecordedCall, Recorder, Recording, RecordingError, ReplayMismatchError,
    ReplayedRun, Replayer, UnrecordedCall, record_to,
};
#[cfg(feature = "insta")]
pub use snapshot::SnapshotOptions;
pub use text::{Detail, TextOptions};
pub use trace::{
    EffectTrace, FailedAttempt, GraphTrace, Header, RunStatus, SendTrace, StepTrace, TaskTrace,
    Timing, Trace,
};

/// Used by the expansion of `assert_trace_snapshot!`. This is not part of the public API.
#[cfg(feature = "insta")]
#[doc(hidden)]
pub mod __private {
    pub use graph_core::RunOptions;
    pub use insta;

    pub use crate::snapshot::settings;
}
