//! HTTP server for runs: start them, stream their events (server-sent events), cancel them, and resume them after a
//! restart.
//!
//! - A [`Service`] manages runs and is independent of HTTP. A [`Runner`] does the work of a run;
//!   [`Graphs`](graph::Graphs) is the runner of compiled graphs.
//! - [`http`] holds what every server needs: authentication, error responses, event streams.
//! - [`graph::routes`] serves any compiled graph. Applications define their own routes on the same service.
#![forbid(unsafe_code)]

pub mod graph;
pub mod http;
mod registry;
pub mod run;
mod runner;
mod server;
mod service;

pub use registry::{Registry, RegistryError};
pub use run::{NewRun, RunEvent, RunInfo, Status};
pub use runner::{EventSender, Runner, RunnerError, RunnerOutcome};
pub use server::{raise_descriptor_limit, serve};
pub use service::{Capacity, EventReader, ReadOutcome, Service, ServiceError};
