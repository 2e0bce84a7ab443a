//! Solves a task by writing and running a program: a model writes it, a sandbox runs it, a critic explains why it
//! failed, and the model tries again with that explanation.
//!
//! The loop is a [graph], so it can be checkpointed, resumed after a crash, traced and drawn. An
//! [`Executor`](executor::Executor) runs the programs in a pool of pre-started sandboxes, each of which is used once.
//! A [`Run`](run::Run) is a session stored in a directory; [`serve`] runs many sessions behind HTTP, and
//! [`mod@bench`] measures how many problems are solved.
#![forbid(unsafe_code)]

pub mod answer;
pub mod bench;
pub mod event;
pub mod execution;
pub mod executor;
pub mod failure;
pub mod graph;
mod job;
pub mod language;
mod log;
pub mod models;
pub mod offline;
mod prompt;
pub mod run;
pub mod serve;
mod state;
pub mod wheels;

pub use job::{Job, JobError, Limits, MAX_CODE, MAX_TASK, Strategy};
pub use log::NumberedEvent;
pub use state::{CallCost, Outcome, Session, SessionUpdate};
