//! Solves a task with a program. A model writes the program, and a sandbox runs it. If the program fails, a critic
//! explains the failure, and the model tries again with that explanation.
//!
//! The loop is a [graph], so it can be checkpointed, resumed after a crash, traced and drawn. An
//! [`Executor`](executor::Executor) runs the programs in a pool of pre-started sandboxes, each of which is used once.
//! A [`Run`](run::Run) is a session that is stored in a directory. The module [`serve`] accepts jobs over HTTP, and
//! [`mod@bench`] measures how many problems are solved.
//!
//! The book's chapter [Sandboxes](../book/sandboxes.html) describes how the programs are isolated; `cargo xtask book`
//! renders it.
#![forbid(unsafe_code)]
#![allow(
    missing_docs,
    reason = "an application: only its own program and tests use the items of this library"
)]

pub mod answer;
pub mod bench;
pub mod event;
pub mod execution;
pub mod executor;
pub mod failure;
pub mod graph;
mod job;
pub mod language;
pub mod models;
pub mod offline;
mod prompt;
pub mod run;
pub mod serve;
mod state;
pub mod wheels;

pub use event::NumberedEvent;
pub use job::{Job, JobError, Limits, Strategy};
pub use state::{CallCost, Outcome, Session, SessionUpdate};
