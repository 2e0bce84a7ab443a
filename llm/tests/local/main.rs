//! Local models: files that cannot be used, a tiny model of chance numbers that every run makes for itself, and
//! a real one, which takes minutes and runs when it is asked for.
#![cfg(feature = "local")]
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod answers;
mod debate;
mod files;
mod real;
mod tiny;
