//! Storage on a PostgreSQL server (version 12 or newer), shared by several machines.
//!
//! # Guarantees
//!
//! A write is a single statement, and therefore one transaction and one round trip. Concurrent writes to several
//! threads share statements. A write returns once the server has committed it. Whether a commit survives a power
//! failure depends on the server setting `synchronous_commit`.
//!
//! Two workers cannot both advance a thread. Checkpoints are stored by a database function that locks the
//! namespace, compares the namespace's head with the expected head, and checks the token of the thread's lease.
//!
//! A run leases its thread with an advisory lock that is held by a dedicated session. The server releases the lock when
//! that session ends: immediately if the process is killed, and within half a minute if its machine is lost. A
//! connection pooler between this process and the server must therefore not share sessions (`pool_mode = session`). A
//! process that is suspended or disconnected keeps its session: another process that has claimed its run ends the
//! session with [`evict_lease_holder`](graph_core::checkpoint::Checkpointer::evict_lease_holder).
//!
//! All tables are in a separate schema, `graph_store` by default. Names are stored as bytes, because PostgreSQL's
//! `text` type cannot represent every name; use `convert_from(thread, 'UTF8')` to display them.

mod batch;
mod cache;
mod chains;
pub mod connections;
mod database;
mod failure;
mod group;
mod lease;
mod leases;
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

// Callers of `from_pool` need the same version of the pool crate.
pub use deadpool_postgres;

pub use cache::PostgresCache;
pub use database::{Postgres, Settings};
pub use failure::DatabaseError;
pub use saver::PostgresSaver;
pub use sizes::VacuumReport;
pub use store::PostgresStore;
