//! Crashes: a process runs a job on a durable thread and dies in the middle of it, again and again.
//!
//! The program `crash-worker` runs the [`job`] on a saver that can be told to kill the process
//! ([`dying`]), and leaves two files behind: what the job did to the world outside, and what the saver said
//! was stored. Whoever started it ([`worker`]) reads the store afterwards ([`sight`]) and compares.

pub mod case;
pub mod disk;
pub mod dying;
pub mod job;
pub mod race;
pub mod rng;
pub mod saver;
pub mod sight;
pub mod trail;
pub mod worker;

use std::{
    env,
    time::{SystemTime, UNIX_EPOCH},
};

/// Whether the long runs are asked for: by the environment variable `GRAPH_NIGHTLY`.
#[must_use]
pub fn is_nightly() -> bool {
    env::var_os("GRAPH_NIGHTLY").is_some_and(|it| it == "1")
}

/// The seed of a test's choices: that of the environment variable `GRAPH_SEED`; else always the same one, and in long
/// runs another one each time.
#[must_use]
pub fn seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.subsec_nanos());
    let given = env::var("GRAPH_SEED").ok().and_then(|it| it.parse().ok());
    given.unwrap_or(if is_nightly() { u64::from(now) } else { 0 })
}
