//! The result of one peer for one workload at one size.

use serde::{Deserialize, Serialize};

use super::{cost::Cost, peer::Kind, workloads::Workload};
use crate::table::group_digits;

/// The result of one peer for one workload at one size.
#[derive(Clone, Debug)]
pub struct Cell {
    pub peer: &'static str,
    pub kind: Kind,
    pub workload: &'static Workload,
    pub size: usize,
    pub outcome: Outcome,
}

/// Outcome of the measurement of one peer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Outcome {
    Measured(Cost),
    /// The peer has no such feature or failed. The text is the reason.
    Absent(String),
    /// The peer was not run, because it would take this many seconds.
    TooSlow(f64),
    /// The answer of the peer differs from that of the engine. The text describes the difference.
    Wrong(String),
}

impl Cell {
    /// Returns the cost, if the peer was measured.
    pub fn cost(&self) -> Option<&Cost> {
        match &self.outcome {
            Outcome::Measured(cost) => Some(cost),
            _ => None,
        }
    }

    /// Returns the cost of the peer. If it was not measured, returns the reason.
    pub fn result(&self) -> Result<&Cost, String> {
        match &self.outcome {
            Outcome::Measured(cost) => Ok(cost),
            Outcome::Absent(reason) | Outcome::Wrong(reason) => Err(reason.clone()),
            Outcome::TooSlow(seconds) => {
                let seconds = group_digits(seconds.round() as usize);
                Err(format!("not run: about {seconds} s expected"))
            }
        }
    }
}

/// Returns the outcome of a peer with this median time. The fastest round took half of it, the slowest one twice as
/// long.
#[cfg(test)]
pub(crate) fn measured(median: f64, rounds: usize) -> Outcome {
    let (min, max, cpu) = (median / 2.0, median * 2.0, median);
    Outcome::Measured(Cost { median, min, max, cpu, rounds, memory: 8_192, stored: None })
}

/// Returns results of two sizes for three peers, one of which failed.
#[cfg(test)]
pub(crate) fn sample_cells() -> Vec<Cell> {
    let cell = |peer, kind, size, outcome| Cell {
        peer,
        kind,
        workload: Workload::named("loop").expect("the workload exists"),
        size,
        outcome,
    };
    let cost = |median| measured(median, 3);
    vec![
        cell("engine", Kind::Engine, 1_000, cost(100.0)),
        cell("by hand", Kind::ByHand, 1_000, cost(40.0)),
        cell("slow", Kind::LangGraph, 1_000, Outcome::Wrong("wrong answer: 7".to_owned())),
        cell("engine", Kind::Engine, 100_000, cost(90.0)),
        cell("by hand", Kind::ByHand, 100_000, cost(20.0)),
    ]
}
