//! HTTP server that starts runs, streams their events (as server-sent events), cancels runs, and resumes them after
//! a restart.
//!
//! For graphs:
//!
//! - [`langgraph`] serves any graph through LangGraph's API, to LangGraph's own clients. Its documentation contains a
//!   complete server.
//! - [`studio`] is a web page for running and debugging these graphs. [`dev`] serves both on this machine.
//!
//! For applications with their own routes:
//!
//! - A [`Service`] manages runs and is independent of HTTP. A [`Runner`], which the application implements, executes
//!   the runs. [`service_graph`](langgraph::service_graph) also offers them to LangGraph's clients.
//! - [`http`] contains the parts that every server needs: authentication, error responses and event streams.
//!
//! The book's chapters [Serving graphs](../book/serving.html), [Using LangGraph's clients](../book/clients.html) and
//! [Studio](../book/studio.html) are a guide; `cargo xtask book` renders them.
#![forbid(unsafe_code)]

pub mod http;
pub mod langgraph;
mod recent_events;
mod registry;
pub mod run;
mod runner;
mod server;
mod service;
pub mod studio;

pub use registry::{Registry, RegistryError};
pub use run::{NewRun, RunEvent, RunInfo, Status};
pub use runner::{EventSender, Runner, RunnerError, RunnerOutcome};
pub use server::{raise_descriptor_limit, serve, serve_until};
pub use service::{Capacity, EventReader, ReadOutcome, Service, ServiceError};
pub use studio::{DevError, DevServer, dev};
