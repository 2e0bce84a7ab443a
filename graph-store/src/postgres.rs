//! Storage on a PostgreSQL server (version 12 or newer), shared by several machines.
//!
//! # Guarantees
//!
//! A write is a single statement, and therefore one transaction and one round trip; concurrent writes of several
//! threads share statements. A write returns once the server has committed it. Whether a commit survives a power
//! failure depends on the server's `synchronous_commit`.
//!
//! Two workers cannot both advance a thread: checkpoints are stored by a function in the database, which locks the
//! namespace, compares its head with the expected one, and checks the token of the thread's lease.
//!
//! A run leases its thread with an advisory lock of a dedicated session. The server releases the lock when that
//! session ends: immediately if the process is killed, within half a minute if its machine is lost. A connection
//! pooler in between must therefore not share sessions (`pool_mode = session`).
//!
//! All tables are in a schema of their own, `graph_store` by default. Names are stored as bytes, because
//! PostgreSQL's `text` cannot represent every name; use `convert_from(thread, 'UTF8')` to display them.

mod batch;
mod cache;
mod chains;
mod database;
mod failure;
mod group;
mod lease;
mod ops;
mod read;
mod remove;
mod saver;
mod schema;
mod sizes;
mod store;
mod subgraphs;
mod tip_cache;
mod write;
mod write_queue;

// Callers of `from_pool` need the matching version of the pool.
pub use deadpool_postgres;

pub use cache::PostgresCache;
pub use database::{Postgres, Settings};
pub use failure::DatabaseError;
pub use saver::PostgresSaver;
pub use sizes::VacuumReport;
pub use store::PostgresStore;
