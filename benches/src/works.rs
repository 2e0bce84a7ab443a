//! The works, implemented on the engine and by hand.

mod bare_sqlite;
mod by_hand;
mod five;
mod server;
mod simple;
mod stored;

use crate::protocol::{Job, unknown};

/// Builds the graph of a work on the engine.
pub fn on_engine(work: &str, size: usize) -> Result<Job, String> {
    simple::prepare(work, size)
        .or_else(|| five::prepare(work, size))
        .or_else(|| stored::prepare(work, size))
        .or_else(|| server::prepare(work, size))
        .ok_or_else(|| unknown(work))
}

/// Prepares a work without an engine: loops, functions and tokio.
pub fn by_hand(work: &str, size: usize) -> Result<Job, String> {
    by_hand::prepare(work, size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::works::WORKS;

    #[test]
    fn engine_and_hand_give_the_same_answers() {
        for work in WORKS {
            let size = work.sizes[0].min(300);
            let engine = on_engine(work.name, size).expect("the engine can do every work")();
            let Ok(mut hand) = by_hand(work.name, size) else { continue };
            assert_eq!(hand(), engine, "{}", work.name);
        }
    }
}
