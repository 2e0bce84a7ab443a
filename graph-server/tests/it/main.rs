//! Tests of runs, with and without HTTP. They use real files, sockets and restarts.
#![expect(clippy::unwrap_used, reason = "tests and their helpers may panic")]

mod app;
mod event_streams;
mod fuzz;
mod guard;
mod jwt;
mod langgraph;
mod schemathesis;
mod service;
mod service_graph;
mod web;
