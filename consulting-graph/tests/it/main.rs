//! What this crate promises, by subject.
#![expect(
    clippy::unwrap_used,
    reason = "tests, though much of it stands in functions of their own"
)]

mod citation;
mod config;
mod debate;
mod diff;
mod edgar;
mod edgar_http;
mod fence;
mod finding;
mod folder;
mod moves;
mod offline;
mod plan;
mod prompt;
mod quantity;
mod rank;
mod report;
mod resume;
mod run;
mod sample;
mod score;
mod speakers;
mod synthetic;
mod ticker;
mod transcript;
mod watch;
