//! Everything in one SQLite file: no server, no set-up, safe for several processes of one machine.
//!
//! # What each mode promises
//!
//! A write is answered once its transaction is committed. Writes that come while another transaction is on its
//! way to the disk are committed together with one `fsync`, so many threads cost little more than one. A small write
//! that comes alone is committed on the thread of whoever asks for it, if its runtime has others and as long as commits
//! take less than half a millisecond; all others go to a thread of their own, which waits for the disk. If a disk that
//! was quick is slow all of a sudden, one commit may keep a thread of the runtime waiting for it, and what that thread
//! looks after.
//!
//! | setting | choice | why |
//! |---|---|---|
//! | `journal_mode` | `WAL` | readers do not wait for the writer, and a commit is one `fsync` |
//! | `synchronous` | [`Full`](Synchronous::Full) | what was answered survives a loss of power; [`Normal`](Synchronous::Normal) survives a crash of the process, and after a loss of power lacks the last commits, never those in the middle |
//! | `page_size` | 4,096 bytes | a commit writes whole pages, and a small step changes two; a file that was made with other pages keeps them |
//! | `auto_vacuum` | `INCREMENTAL` | [`Sqlite::vacuum`] gives room back in small steps, beside live traffic |
//! | `wal_autocheckpoint` | by ourselves, at 2,000 pages | the log is folded into the file every 2,000 pages, not every 1,000, and not in the middle of a commit |
//! | `journal_size_limit` | 64 MB | a log that grew under load shrinks again |
//! | `busy_timeout` | 10 s | how long a write waits for another process's |
//! | `trusted_schema`, `cell_size_check` | off, on | a file from elsewhere runs no code and is checked while it is read |
//!
//! The bundled SQLite syncs with `fsync` unless it is built with `LIBSQLITE3_FLAGS="-DHAVE_FDATASYNC=1"` in the
//! environment (or under `[env]` in `.cargo/config.toml`), which spares a write of the file's times on each commit.
//!
//! With `Durability::Sync` a run goes on once its step is committed; with `Durability::Async` commits trail
//! behind the run, in order; with `Durability::Exit` all is committed at the end.

mod cache;
mod chains;
mod copy;
mod database;
mod failure;
mod known;
mod lease;
mod put;
mod read;
mod records;
mod remove;
mod saver;
mod schema;
mod sizes;
mod store;
mod sweep;
mod writer;

pub use cache::SqliteCache;
pub use database::{Settings, Sqlite, Synchronous};
pub use failure::DatabaseError;
pub use saver::SqliteSaver;
pub use sizes::{FileSizes, Vacuumed};
pub use store::SqliteStore;
