//! Tests of local models: with unusable files, with a tiny random model that the tests generate, and with a real model,
//! which takes minutes and is used only on request.
#![cfg(feature = "local")]
#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

mod answers;
#[cfg(feature = "graph")]
mod debate;
mod files;
mod real;
mod tiny;
