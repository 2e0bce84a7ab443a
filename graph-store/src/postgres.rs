//! Threads on a PostgreSQL server (version 12 or newer), shared by several machines.
//!
//! # What is promised
//!
//! A write is one statement, and so one transaction and one round trip; writes of many threads at once share
//! statements. A write is answered once the server has committed it. Whether that survives a loss of power is the
//! server's `synchronous_commit`.
//!
//! Two workers cannot both advance a thread: a checkpoint is stored by a function in the database, which locks
//! the namespace, compares its head with the expected one, and compares the token of the thread's lease.
//!
//! A run holds its thread by a lock of a session of its own. The server gives it free when that session ends:
//! at once when the process is killed, within half a minute when its machine is lost. A connection pooler in
//! between must therefore keep sessions apart (`pool_mode = session`).
//!
//! All tables lie in a schema of their own, `graph_store` unless the settings say otherwise. Names are stored as
//! bytes, because PostgreSQL's text cannot hold every name; `convert_from(thread, 'UTF8')` shows them.

mod batch;
mod cache;
mod chains;
mod database;
mod failure;
mod group;
mod known;
mod lanes;
mod lease;
mod ops;
mod read;
mod remove;
mod saver;
mod schema;
mod sizes;
mod store;
mod visits;
mod write;

// Whoever makes a pool for `from_pool` needs the version that it is made for.
pub use deadpool_postgres;

pub use cache::PostgresCache;
pub use database::{Postgres, Settings};
pub use failure::DatabaseError;
pub use saver::PostgresSaver;
pub use sizes::Vacuumed;
pub use store::PostgresStore;
