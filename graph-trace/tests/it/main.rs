//! Tests of the public API. Traces are deterministic, differences are found, and runs are replayed without making
//! calls.
#![expect(clippy::unwrap_used, reason = "test helpers outside of test functions")]

mod cases;
mod diffs;
mod graphs;
mod redactions;
mod replaced_processes;
mod replays;
mod snapshots;
mod stable;
