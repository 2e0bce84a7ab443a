//! From a task to a program that ran: a model writes it, a sandbox runs it, a critic says why it failed, and the model
//! writes it again with all that is known.
//!
//! The loop is a [graph]: it can be stored, gone on with after a crash, traced and drawn like any other. Programs run in
//! a [`Workshop`](workshop::Workshop): a pool of sandboxes that are ready, each used for one program. A [`Run`](run::Run)
//! is a session in a folder; [`serve`] has many of them behind HTTP, and [`mod@bench`] measures how many problems are
//! solved.
#![forbid(unsafe_code)]

pub mod answer;
pub mod bench;
pub mod event;
pub mod execution;
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
pub mod workshop;

pub use job::{BadJob, Job, Limits, MAX_CODE, MAX_TASK, Strategy};
pub use log::Numbered;
pub use state::{Outcome, Paid, Session, SessionUpdate};
