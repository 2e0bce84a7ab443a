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
    /// Number of running tasks of each step, keyed by the namespace of their graph.
    running: BTreeMap<String, BTreeMap<i64, usize>>,
    /// Whether tasks of different steps of a graph ran at the same time.
    ran_ahead: bool,
}

/// A running task. Dropping it ends the task.
pub(crate) struct RunningTask<'a> {
    counters: &'a Counters,
    namespace: &'a str,
    step: i64,
}

impl Drop for RunningTask<'_> {
    fn drop(&mut self) {
        let mut counts = self.counters.lock();
        let Some(running) = counts.running.get_mut(self.namespace) else { return };
        if let Some(count) = running.get_mut(&self.step) {
            *count -= 1;
        }
        running.retain(|_, count| *count > 0);
    }
}

impl Counters {
    /// Counts a call to a node's body.
    pub(crate) fn count_start(&self, node: &str) {
        *self.lock().calls.entry(node.to_owned()).or_default() += 1;
    }

    /// Counts a running task of a step until the returned value is dropped.
    pub(crate) fn enter<'a>(&'a self, namespace: &'a str, step: i64) -> RunningTask<'a> {
        let mut counts = self.lock();
        let running = counts.running.entry(namespace.to_owned()).or_default();
        *running.entry(step).or_default() += 1;
        let overlaps = running.len() > 1;
        counts.ran_ahead |= overlaps;
        RunningTask { counters: self, namespace, step }
    }

    /// Returns whether a task started before a task of an earlier step ended.
    pub(crate) fn ran_ahead(&self) -> bool {
        self.lock().ran_ahead
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
