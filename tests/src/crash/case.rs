//! A crash test on one thread.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use graph_core::{Durability, MemorySaver};

use super::{
    job::{self, EffectLog, Job},
    logs,
    stored_thread::{ConsistencyChecker, ConsistencyError, StoredThread},
    worker::WorkerLauncher,
};

/// The result of a job that is not interrupted.
#[derive(Clone, Debug)]
pub struct Expected {
    pub job: Job,
    /// Side effects of the job. Each of them happens once.
    pub effects: BTreeSet<String>,
}

impl Expected {
    /// Runs the job in this process with an in-memory saver.
    ///
    /// # Panics
    ///
    /// Panics if the job fails.
    pub fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory can be created");
        let path = dir.path().join("effects");
        let (saver, effect_log) = (Arc::new(MemorySaver::new()), EffectLog::new(path.clone()));
        let job = block_on(job::finish(saver, "job", Durability::Sync, effect_log));
        let job = job.expect("the job succeeds with an in-memory saver");
        let effects = logs::effects(&path).expect("the effect log was just written");
        assert!(effects.values().all(|it| *it == 1), "repeated effects: {effects:?}");
        Self { job, effects: effects.into_keys().collect() }
    }
}

impl Default for Expected {
    fn default() -> Self {
        Self::new()
    }
}

/// A crash test on one thread.
#[derive(Debug)]
pub struct CrashCase<'a> {
    launcher: &'a WorkerLauncher,
    checker: ConsistencyChecker,
}

impl<'a> CrashCase<'a> {
    /// Creates a test. The launcher's thread must not exist yet.
    pub fn new(launcher: &'a WorkerLauncher, durability: Durability) -> Self {
        Self { launcher, checker: ConsistencyChecker::new(durability) }
    }

    pub fn crashes(&self) -> usize {
        self.checker.crashes()
    }

    /// Checks the stored state that a killed worker has left behind.
    ///
    /// # Panics
    ///
    /// Panics if the store or the logs cannot be read.
    pub fn after_crash(&mut self) -> Result<(), ConsistencyError> {
        let (acks, effects) = self.logs();
        self.checker.after_crash(self.stored(), &acks, &effects)
    }

    /// Checks the stored state after the job is complete.
    ///
    /// # Panics
    ///
    /// Panics if the store or the logs cannot be read.
    pub fn at_end(&mut self, expected: &Expected) -> Result<(), ConsistencyError> {
        let (acks, effects) = self.logs();
        self.checker.at_end(self.stored(), &acks, &effects, &expected.effects)
    }

    fn stored(&self) -> StoredThread {
        block_on(self.launcher.stored()).expect("the store can be read")
    }

    fn logs(&self) -> (Vec<logs::Ack>, BTreeMap<String, usize>) {
        let acks = self.launcher.acks().expect("the acknowledgements can be read");
        (acks, self.launcher.effects().expect("the effect log can be read"))
    }
}

/// Runs a future to completion on the current OS thread.
///
/// # Panics
///
/// Panics if the runtime cannot be created.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime can be created").block_on(future)
}
