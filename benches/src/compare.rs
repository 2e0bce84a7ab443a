//! Compares the engine with its peers: the same workloads, the same answers, interleaved rounds.

pub mod cost;
pub mod goals;
pub mod peer;
pub mod plot;
pub mod publish;
pub mod report;
pub mod rounds;
pub mod workloads;
