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
    sync::LazyLock,
    time::{SystemTime, UNIX_EPOCH},
};

/// Returns the seed for random choices in this process. It is the value of the environment variable `GRAPH_SEED`, if set.
/// Otherwise it is a fixed seed, or the current time in nightly runs.
pub fn seed() -> u64 {
    // Stored, so that the seed that a failed test prints is the one that was used.
    static SEED: LazyLock<u64> = LazyLock::new(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.subsec_nanos());
        let given = env::var("GRAPH_SEED").ok().and_then(|it| it.parse().ok());
        given.unwrap_or(if test_support::is_nightly() { u64::from(now) } else { 0 })
    });
    *SEED
}
