//! The crate's integration tests, one binary.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

#[cfg(feature = "http")]
mod byte_server;
mod layers;
mod overflow;
#[cfg(feature = "http")]
mod peers;
mod scripted;
mod stream;
mod structured;
