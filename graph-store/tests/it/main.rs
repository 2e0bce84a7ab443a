//! The storage as its users see it.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod by_hand;
mod sqlite;
mod sqlite_cache;
mod sqlite_known;
mod sqlite_schema;
mod sqlite_store;
