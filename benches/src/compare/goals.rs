//! The goals: ratios and times that one run of the benchmark must reach.

use super::{cell::Cell, cost::Cost, peer::Kind};

/// A ratio or a time that the engine should reach.
#[derive(Clone, Copy, Debug)]
pub struct Goal {
    pub workload: &'static str,
    /// Size at which the goal applies. A ratio that was not measured at this size is taken from the next smaller size
    /// at which it was measured.
    pub size: usize,
    /// The peers to compare with. The engine is compared with itself at a tenth of the size, where the cost of a unit
    /// should be the same. Ignored if the limit is a time.
    pub against: Kind,
    pub measure: Measure,
    pub limit: Limit,
}

/// The cost that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    Time,
    Memory,
}

/// A limit on a ratio of costs, or on the cost of the engine.
#[derive(Clone, Copy, Debug)]
pub enum Limit {
    /// Ratio of the peer's cost to the engine's; at least this value.
    AtLeast(f64),
    /// Ratio of the engine's cost to the peer's; at most this value.
    AtMost(f64),
    /// Time of the engine per unit, in nanoseconds; at most this value.
    Nanos(f64),
}

const fn goal(workload: &'static str, size: usize, against: Kind, limit: Limit) -> Goal {
    Goal { workload, size, against, measure: Measure::Time, limit }
}

const fn memory(against: Kind, limit: Limit) -> Goal {
    Goal { workload: "fan-out", size: 100_000, against, measure: Measure::Memory, limit }
}

/// All goals.
pub const GOALS: &[Goal] = &[
    goal("loop", 100_000, Kind::LangGraph, Limit::AtLeast(1_000.0)),
    goal("loop", 100_000, Kind::LangGraphJs, Limit::AtLeast(100.0)),
    goal("loop", 100_000, Kind::Rust, Limit::AtLeast(1.0)),
    goal("loop", 100_000, Kind::ByHand, Limit::AtMost(4.0)),
    goal("fan-out", 10_000, Kind::LangGraph, Limit::AtLeast(300.0)),
    goal("fan-out", 10_000, Kind::LangGraphJs, Limit::AtLeast(100.0)),
    goal("fan-out", 10_000, Kind::Rust, Limit::AtLeast(3.0)),
    goal("fan-out", 10_000, Kind::ByHand, Limit::AtMost(1.3)),
    goal("growing-list", 10_000, Kind::LangGraph, Limit::AtLeast(1_000.0)),
    goal("growing-list", 10_000, Kind::Rust, Limit::AtLeast(1.0)),
    goal("growing-list", 10_000, Kind::ByHand, Limit::AtMost(4.0)),
    goal("growing-list", 10_000, Kind::Engine, Limit::AtMost(1.5)),
    goal("sequential", 1_000, Kind::LangGraph, Limit::AtLeast(100.0)),
    goal("sequential", 1_000, Kind::Rust, Limit::AtLeast(1.0)),
    goal("fanout-to-subgraph", 100, Kind::LangGraph, Limit::AtLeast(100.0)),
    goal("fanout-to-subgraph", 100, Kind::Rust, Limit::AtLeast(1.0)),
    goal("wide-state", 300, Kind::LangGraph, Limit::AtLeast(100.0)),
    goal("wide-state", 300, Kind::Rust, Limit::AtLeast(1.0)),
    goal("react-agent", 100, Kind::LangGraph, Limit::AtLeast(100.0)),
    goal("react-agent", 100, Kind::Rust, Limit::AtLeast(1.0)),
    goal("agent-loop", 25, Kind::LangGraph, Limit::AtLeast(100.0)),
    goal("agent-loop", 25, Kind::Rust, Limit::AtLeast(1.0)),
    goal("agent-loop", 25, Kind::Engine, Limit::Nanos(20_000.0)),
    goal("sqlite-loop", 300, Kind::LangGraph, Limit::AtLeast(10.0)),
    goal("sqlite-loop", 300, Kind::Rust, Limit::AtLeast(4.0)),
    goal("sqlite-loop", 300, Kind::ByHand, Limit::AtMost(2.0)),
    goal("sqlite-loop-16", 100, Kind::LangGraph, Limit::AtLeast(30.0)),
    goal("sqlite-loop-16", 100, Kind::Rust, Limit::AtLeast(4.0)),
    goal("server-concurrent", 200, Kind::LangGraph, Limit::AtLeast(20.0)),
    goal("server-first-event", 10, Kind::LangGraph, Limit::AtLeast(50.0)),
    memory(Kind::LangGraph, Limit::AtLeast(10.0)),
    memory(Kind::Rust, Limit::AtLeast(1.0)),
    memory(Kind::ByHand, Limit::AtMost(3.0)),
];

/// The measured ratio or time of a goal.
#[derive(Clone, Copy, Debug)]
pub struct Verdict {
    /// Size at which the value was measured.
    pub size: usize,
    /// The best of the peers that the goal compares with.
    pub peer: &'static str,
    /// The ratio, or the time in nanoseconds if the limit is a time.
    pub value: f64,
    pub met: bool,
}

impl Goal {
    /// Returns the measured value. A time is measured at the size of the goal; a ratio is measured at that size or, if
    /// no peer was measured there, at the largest smaller size.
    pub fn verdict(&self, cells: &[Cell]) -> Option<Verdict> {
        if let Limit::Nanos(limit) = self.limit {
            let ours = self.cost(self.engine(cells, self.size)?);
            return Some(self.compare(self.size, "engine", ours, limit));
        }
        if self.against == Kind::Engine {
            return self.growth(cells);
        }
        let of_workload =
            || cells.iter().filter(|it| it.workload.name == self.workload && it.size <= self.size);
        let peers = of_workload().filter(|it| it.kind == self.against && it.cost().is_some());
        let size = peers.clone().map(|it| it.size).max()?;
        let cost = |cell: &Cell| cell.cost().map(|it| self.cost(it));
        let best = peers.filter(|it| it.size == size).min_by(|a, b| {
            f64::total_cmp(&cost(a).unwrap_or(f64::MAX), &cost(b).unwrap_or(f64::MAX))
        })?;
        let engine = of_workload().find(|it| it.kind == Kind::Engine && it.size == size)?;
        Some(self.compare(size, best.peer, cost(engine)?, cost(best)?))
    }

    /// Compares the engine with itself at a tenth of the size.
    fn growth(&self, cells: &[Cell]) -> Option<Verdict> {
        let at = |size| Some(self.cost(self.engine(cells, size)?));
        let (large, small) = (at(self.size)?, at(self.size / 10)?);
        Some(self.compare(self.size, "engine at a tenth of the size", large, small))
    }

    /// Returns the cost of the engine at a size, if it was measured.
    fn engine<'a>(&self, cells: &'a [Cell], size: usize) -> Option<&'a Cost> {
        let engine = |it: &&Cell| it.workload.name == self.workload && it.kind == Kind::Engine;
        cells.iter().filter(engine).find(|it| it.size == size)?.cost()
    }

    fn compare(&self, size: usize, peer: &'static str, ours: f64, theirs: f64) -> Verdict {
        let (value, met) = match self.limit {
            Limit::AtLeast(limit) => (theirs / ours, theirs / ours >= limit),
            Limit::AtMost(limit) => (ours / theirs, ours / theirs <= limit),
            Limit::Nanos(limit) => (ours, ours <= limit),
        };
        Verdict { size, peer, value, met }
    }

    fn cost(&self, cost: &Cost) -> f64 {
        match self.measure {
            Measure::Time => cost.median,
            // A run without any growth would make every ratio infinite.
            Measure::Memory => cost.memory.max(4_096) as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{cell::sample_cells, workloads::Workload};

    #[test]
    fn growth_is_relative_to_a_tenth_of_the_size() {
        let workload = Workload::named("growing-list").expect("the workload exists");
        let goal = goal("growing-list", 10_000, Kind::Engine, Limit::AtMost(1.5));
        let samples = sample_cells();
        let cell = |cell: &Cell, size| Cell { workload, size, ..cell.clone() };
        let cells = [cell(&samples[0], 1_000), cell(&samples[3], 10_000)];
        let verdict = goal.verdict(&cells).expect("both sizes were measured");
        assert_eq!((verdict.size, verdict.value, verdict.met), (10_000, 0.9, true));
        assert!(goal.verdict(&cells[1..]).is_none());
    }

    #[test]
    fn limits_on_the_engines_time_are_checked() {
        let cells = sample_cells();
        let verdict = |limit| {
            let goal = goal("loop", 100_000, Kind::Engine, Limit::Nanos(limit));
            goal.verdict(&cells).map(|it| (it.value, it.met))
        };
        assert_eq!(verdict(90.0), Some((90.0, true)));
        assert_eq!(verdict(89.0), Some((90.0, false)));
        assert!(goal("loop", 10, Kind::Engine, Limit::Nanos(90.0)).verdict(&cells).is_none());
    }
}
