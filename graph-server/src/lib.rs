//! Runs behind HTTP: started, watched live over server-sent events, stopped, and gone on with after a restart.
//!
//! - A [`Service`] has runs and knows nothing of HTTP. What a run does is its [`Runner`]'s business; that of a compiled
//!   graph is [`Graphs`](graph::Graphs).
//! - [`http`] has what every server needs: who may ask, how errors look, how events are streamed.
//! - [`graph::routes`] serves any compiled graph; applications have routes of their own over the same service.
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
pub use runner::{Ended, Failure, Runner, Teller};
pub use server::{lift_descriptor_limit, serve};
pub use service::{Capacity, Read, Reader, Service, ServiceError};
