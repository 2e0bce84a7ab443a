//! Counters that all graphs of a case share.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::error;

/// Counts the calls and the scripted failures of a case.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    counts: Mutex<CounterState>,
}

#[derive(Debug, Default)]
struct CounterState {
    calls: BTreeMap<String, u64>,
    failures: BTreeMap<String, u32>,
    /// Error codes, keyed by error text. Contains the errors that ended a run.
    codes: BTreeMap<String, String>,
}

impl Counters {
    /// Counts a call to a node's body.
    pub(crate) fn count_start(&self, node: &str) {
        *self.lock().calls.entry(node.to_owned()).or_default() += 1;
    }

    /// Returns the number of calls to each node since this method was last called.
    pub(crate) fn take_calls(&self) -> BTreeMap<String, u64> {
        std::mem::take(&mut self.lock().calls)
    }

    /// Counts one execution of a scripted failure. Returns true for the first `times` executions.
    pub(crate) fn should_fail(&self, place: String, times: u32) -> bool {
        let mut counts = self.lock();
        let met = counts.failures.entry(place).or_default();
        *met += 1;
        *met <= times
    }

    /// Stores the code of an error, because events and states contain only the error's text.
    pub(crate) fn remember_code(&self, text: String, code: String) {
        self.lock().codes.insert(text, code);
    }

    /// Returns the code for the text of an error. If no code is known, returns the text.
    pub(crate) fn error_code(&self, text: &str) -> String {
        let known = self.lock().codes.get(text).cloned();
        known.unwrap_or_else(|| error::code_of_text(text).to_owned())
    }

    // A std mutex suffices, because it is never held across an await.
    fn lock(&self) -> MutexGuard<'_, CounterState> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
