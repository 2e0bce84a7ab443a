//! Durable threads for `graph-core`: checkpoints, long-term memory and the node cache, on SQLite and PostgreSQL.
//!
//! | | SQLite (feature `sqlite`, on by default) | PostgreSQL (feature `postgres`) |
//! |---|---|---|
//! | checkpoints | [`SqliteSaver`] | [`PostgresSaver`] |
//! | long-term memory | [`SqliteStore`] | [`PostgresStore`] |
//! | node cache | [`SqliteCache`] | [`PostgresCache`] |
//!
//! Each step stores only its changes, so storage grows with the number of changes, not with the number of steps
//! times the size of the state.
//!
//! The book's chapters [Threads, checkpoints, durability](../book/threads.html) and [Store and
//! memory](../book/store.html) are a guide, and [Operating it](../book/operations.html) describes retention and sizes;
//! `cargo xtask book` renders them.

mod body;
mod chain;
mod codec;
mod encoded;
mod error;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod failure;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod items;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod recent;
mod retention;
mod sizes;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod time;

pub use codec::CodecError;
#[cfg(feature = "encryption")]
pub use codec::{KEY_VARIABLE, KeyError, Keys};
pub use error::OpenError;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub use items::CacheFailures;
#[cfg(feature = "postgres")]
pub use postgres::{Postgres, PostgresCache, PostgresSaver, PostgresStore};
pub use retention::{Retention, RetentionReport, RetentionRule};
pub use sizes::Sizes;
#[cfg(feature = "sqlite")]
pub use sqlite::{Sqlite, SqliteCache, SqliteSaver, SqliteStore};
