//! Compares the engine with its peers: the same workloads, the same answers, interleaved rounds.

pub mod cell;
pub mod cost;
pub mod environment;
pub mod goals;
pub mod overview;
pub mod peer;
pub mod plot;
mod predict;
pub mod progress;
pub mod publish;
pub mod report;
pub mod rounds;
pub mod verdicts;
pub mod workloads;
