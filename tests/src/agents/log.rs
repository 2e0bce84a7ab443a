//! The log of a case: what models and tools did.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde_json::Value;

/// Actions since the last call in the script, and counters for the whole case.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) model_calls: Vec<Value>,
    pub(super) tool_runs: Vec<Value>,
    pub(super) trace: Vec<Value>,
    /// How often each program has reached a `fail` operation, keyed by the name of the program. Counted over the whole
    /// case.
    pub(super) failures: BTreeMap<String, u64>,
}

/// A log that models and tools write to.
pub(super) type SharedLog = Arc<Mutex<Log>>;

impl Log {
    /// Removes and returns the entries for the answer to a call.
    pub(super) fn take(&mut self) -> (Vec<Value>, Vec<Value>, Vec<Value>) {
        let take = std::mem::take;
        (take(&mut self.model_calls), take(&mut self.tool_runs), take(&mut self.trace))
    }
}

pub(super) fn lock(log: &Mutex<Log>) -> MutexGuard<'_, Log> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}
