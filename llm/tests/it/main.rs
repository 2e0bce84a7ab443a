//! Integration tests of the crate, combined in one binary.
#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

#[cfg(feature = "http")]
mod byte_server;
mod fuzz;
mod layers;
#[cfg(feature = "graph")]
mod message_stream;
mod overflow;
#[cfg(feature = "http")]
mod peers;
mod scripted;
mod stream;
mod structured;
mod structured_calls;
