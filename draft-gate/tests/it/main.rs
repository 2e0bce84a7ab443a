//! All integration tests of the public interface, built as one program.
#![expect(clippy::unwrap_used, reason = "tests and their helpers may panic")]

mod attacks;
mod audit;
mod checking;
mod command;
mod crash;
mod cycle;
mod decisions;
mod extraction;
mod failing;
mod fuzz;
mod graph;
mod hidden;
mod judging;
mod power;
mod properties;
mod race;
mod rules;
#[cfg(feature = "sandbox")]
mod sandbox;
mod secret_corpus;
mod support;
mod work;
