//! The workloads, implemented on the engine and as handwritten code.

mod bare_sqlite;
mod by_hand;
mod five;
mod server;
mod simple;
mod stored;

use crate::protocol::{Job, unknown};

pub use five::run_agent;

/// Builds the graph of a workload on the engine.
pub fn on_engine(workload: &str, size: usize) -> Result<Job, String> {
    simple::prepare(workload, size)
        .or_else(|| five::prepare(workload, size))
        .or_else(|| stored::prepare(workload, size))
        .or_else(|| server::prepare(workload, size))
        .ok_or_else(|| unknown(workload))
}

/// Prepares a workload without an engine: loops, functions and tokio.
pub fn by_hand(workload: &str, size: usize) -> Result<Job, String> {
    by_hand::prepare(workload, size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::workloads::WORKLOADS;

    #[test]
    fn engine_and_handwritten_code_give_the_same_answers() {
        for workload in WORKLOADS {
            let size = workload.sizes[0].min(300);
            let engine =
                on_engine(workload.name, size).expect("the engine can do every workload")();
            let Ok(mut handwritten) = by_hand(workload.name, size) else { continue };
            assert_eq!(handwritten(), engine, "{}", workload.name);
        }
    }
}
