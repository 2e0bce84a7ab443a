//! Storage in a single SQLite file. It needs no server and no setup, and several processes on one machine can use
//! it safely.
//!
//! # Durability and settings
//!
//! A write returns once its transaction is committed. Writes that arrive while another commit is in progress are
//! committed together with a single `fsync`, so writing to many threads costs little more than writing to one. A
//! small write that arrives alone is committed on the calling OS thread, if the caller's runtime has other worker
//! threads and recent commits have taken less than half a millisecond. All other writes go to a dedicated OS
//! thread, which waits for the disk. If a fast disk suddenly becomes slow, one commit may block a worker thread of
//! the runtime, and with it the sockets and timers that this worker drives.
//!
//! | setting | value | reason |
//! |---|---|---|
//! | `journal_mode` | `WAL` | readers do not block on the writer, and a commit is one `fsync` |
//! | `synchronous` | [`Full`](Synchronous::Full) | a write that has returned survives a power failure; with [`Normal`](Synchronous::Normal) it survives a crash of the process, and a power failure can lose the most recent commits, but never a commit that is older than a surviving one |
//! | `page_size` | 4,096 bytes | a commit writes whole pages, and a small step changes only two pages; an existing file keeps its page size |
//! | `auto_vacuum` | `INCREMENTAL` | [`Sqlite::vacuum`] frees space in small steps, while runs are active |
//! | `wal_autocheckpoint` | replaced by our own WAL checkpoints | the WAL is copied into the file every 2,000 pages instead of every 1,000, and never in the middle of a commit |
//! | `journal_size_limit` | 64 MB | a WAL that grew under load shrinks again |
//! | `busy_timeout` | 60 s | maximum time that a write waits for another process to finish writing |
//! | `trusted_schema`, `cell_size_check` | off, on | a file from an untrusted source cannot run code, and its pages are checked while they are read |
//!
//! The bundled SQLite uses `fsync`. To use `fdatasync` instead, set `LIBSQLITE3_FLAGS="-DHAVE_FDATASYNC=1"` in the
//! build environment (or under `[env]` in `.cargo/config.toml`). Each commit then no longer writes the timestamps
//! of the file.
//!
//! With `Durability::Sync`, a run continues once its step is committed. With `Durability::Async`, steps are
//! committed in order while the run continues. With `Durability::Exit`, everything is committed at the end of the
//! run.

mod cache;
mod chains;
mod copy;
mod database;
mod failure;
mod lease;
mod owner;
mod put;
mod read;
mod records;
mod remove;
mod saver;
mod schema;
mod sizes;
mod store;
mod sweep;
mod thread_cache;
mod writer;

pub use cache::SqliteCache;
pub use database::{Settings, Sqlite, Synchronous};
pub use failure::DatabaseError;
pub use saver::SqliteSaver;
pub use sizes::{FileSizes, VacuumReport};
pub use store::SqliteStore;
