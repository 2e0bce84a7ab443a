//! Runs compiled graphs on several machines.
//!
//! A [`Worker`] executes runs of registered graphs, and a [`Client`] starts, resumes, cancels and watches them. A graph
//! needs no change: its checkpointer, which all workers share, keeps its state. The run survives the death of its
//! worker at any moment: another worker continues it from its last checkpoint.
//!
//! A [`Scheduler`] decides which worker executes which run:
//!
//! | scheduler | feature | needs |
//! |---|---|---|
//! | `PostgresQueue` | `postgres-queue` (default) | PostgreSQL |
//! | `Restate` | `restate` | PostgreSQL and a Restate server |
//!
//! The runs themselves, their results and their events are in PostgreSQL with both schedulers; see [`RunStore`].
//!
//! # Terms
//!
//! - A **leg** is the part of a run from its start, or from a resume, until it waits, stops or ends.
//! - A worker **claims** a leg before it executes it. The **fence** of a claim is its number: the database rejects the
//!   writes of a worker whose claim is not the newest.
//! - A **spread** task is executed by any worker of the cluster, and not necessarily by the worker of its run.
//! - A **pool** is a named group of workers. A node that is bound to a pool is executed only by its workers.
//!
//! # Guarantees
//!
//! - One run per thread executes at a time. Further runs of the thread wait, in the order in which they were submitted
//!   to PostgreSQL or to the Restate server.
//! - A result that was recorded (see [`Context::task`](graph_core::Context::task)) is not produced again. A call that
//!   was in flight when its worker died is repeated; use
//!   [`Context::idempotency_key`](graph_core::Context::idempotency_key), which is the same on every worker.
//! - A worker that lost its connection and reconnects cannot overwrite results: events and results carry the number of
//!   the claim, and the checkpointer rejects writes under a lease that another worker has taken.
//! - An interrupt ends the leg of a run. No process waits for the answer.
//!
//! Events are not part of these guarantees: if a worker dies, events may be missing or repeated.
//!
//! The book's chapter [Running on several machines](../book/cluster.html) is a guide; `cargo xtask book` renders it.
#![forbid(unsafe_code)]

mod client;
mod error;
mod event_sink;
mod failure;
mod fan_out;
mod graph;
mod graph_version;
mod leg;
mod leg_end;
mod limits;
mod registered_graph;
mod run;
mod run_command;
mod run_settings;
mod run_status;
mod scheduler;
#[cfg(feature = "server")]
mod server;
#[cfg(feature = "http")]
mod status_page;
#[cfg(feature = "http")]
mod status_server;
mod status_text;
mod store;
mod task_execution;
mod task_message;
mod task_worker;
mod task_writer;
mod timer;
mod worker;
mod worker_options;

pub use client::{Client, Events};
pub use error::ClusterError;
pub use failure::FailureKind;
pub use leg::LegRunner;
pub use leg_end::LegEnd;
pub use registered_graph::RegisteredGraph;
pub use run::{RunInfo, RunResult, StartRun, Ticket};
pub use run_command::{RunCommand, RunTarget};
pub use run_settings::RunSettings;
pub use run_status::RunStatus;
pub use scheduler::Scheduler;
#[cfg(feature = "postgres-queue")]
pub use scheduler::postgres_queue::PostgresQueue;
#[cfg(feature = "restate")]
pub use scheduler::restate::Restate;
#[cfg(all(feature = "http", feature = "server"))]
pub use status_server::serve_status;
#[cfg(feature = "http")]
pub use status_server::status_routes;
pub use store::{ClusterStatus, RunEvent, RunStore, WorkerRun, WorkerStatus};
pub use timer::{is_timer, sleep};
pub use worker::{Worker, termination};
