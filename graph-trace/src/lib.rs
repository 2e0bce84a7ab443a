//! What a run of a graph did, as data: to look at, to test against, to replay.
//!
//! A [`Trace`] is made from a run's events. It is the same for the same run however its tasks interleave, on one
//! thread or on many, on any machine: it holds tasks in task order and shows no ids, times or addresses unless asked.

mod build;
mod record;
mod text;
mod trace;

pub use build::TraceBuilder;
pub use record::{Recorded, record, record_thread};
pub use text::{Detail, Shape};
pub use trace::{EffectTrace, End, GraphTrace, Header, Retry, SendTrace, StepTrace, TaskTrace, Timing, Trace};
