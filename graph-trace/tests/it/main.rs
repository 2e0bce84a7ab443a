//! Traces, at the public API: the same however a run goes, different where it differs, and replayed without a call.
#![expect(
    clippy::unwrap_used,
    reason = "tests, though most of it stands in functions of their own"
)]

mod cases;
mod diffs;
mod graphs;
mod redactions;
mod replays;
mod snapshots;
mod stable;
