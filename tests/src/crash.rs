//! Crash tests, in which a process runs a job on a durable thread and is killed repeatedly.
//!
//! The program `crash-worker` runs the [`job`] on a saver that kills the process at a given write
//! ([`killing_hook`]). It leaves two files, which contain the side effects of the job and the writes that the saver
//! acknowledged. The test that started the worker ([`worker`]) then reads the store ([`stored_thread`]) and
//! compares it with these files.

pub mod agent_job;
pub mod case;
pub mod disk;
pub mod job;
pub mod killing_hook;
pub mod location;
pub mod logs;
pub mod race;
pub mod repeated_start;
pub mod stored_thread;
pub mod worker;

use std::{
    env,
    time::{SystemTime, UNIX_EPOCH},
};

/// Returns the seed for random choices. It is the value of the environment variable `GRAPH_SEED`, if set. Otherwise
/// it is a fixed seed, or a new seed each time in nightly runs.
pub fn seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.subsec_nanos());
    let given = env::var("GRAPH_SEED").ok().and_then(|it| it.parse().ok());
    given.unwrap_or(if test_support::is_nightly() { u64::from(now) } else { 0 })
}
