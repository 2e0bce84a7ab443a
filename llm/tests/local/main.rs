//! Tests of local models: unusable files, a tiny random model that the tests generate, and a real one, which takes
//! minutes and runs only on request.
#![cfg(feature = "local")]
#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

mod answers;
mod debate;
mod files;
mod real;
mod tiny;
