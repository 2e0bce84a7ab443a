//! Tests `PostgresSaver` on a real server. Runs the conformance suite for savers, and tests several clients, a
//! failing server and a shared database.
#![expect(clippy::unwrap_used, reason = "test code, including helper functions")]

#[path = "postgres_saver/failures.rs"]
mod failures;
#[path = "postgres_saver/leases.rs"]
mod leases;
#[path = "postgres_saver/support.rs"]
mod support;
#[path = "postgres_saver/writes.rs"]
mod writes;
