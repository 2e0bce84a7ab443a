//! Tests of the public API.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod diary;
mod sqlite;
mod sqlite_cache;
mod sqlite_files;
mod sqlite_schema;
mod sqlite_store;
mod sqlite_thread_cache;
