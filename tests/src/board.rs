//! The board of a case: what its node bodies count, wherever among its graphs they are.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::error;

/// What is counted over a case.
#[derive(Debug, Default)]
pub(crate) struct Board {
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    calls: BTreeMap<String, u64>,
    failures: BTreeMap<String, u32>,
    /// The words for texts of errors that runs have ended with.
    words: BTreeMap<String, String>,
}

impl Board {
    /// Counts the start of a node's body.
    pub(crate) fn started(&self, node: &str) {
        *self.lock().calls.entry(node.to_owned()).or_default() += 1;
    }

    /// The starts since this was last asked.
    pub(crate) fn take_calls(&self) -> BTreeMap<String, u64> {
        std::mem::take(&mut self.lock().calls)
    }

    /// Counts one coming to a scripted failure, and says whether it is among the first so many.
    pub(crate) fn fails(&self, place: String, times: u32) -> bool {
        let mut counts = self.lock();
        let met = counts.failures.entry(place).or_default();
        *met += 1;
        *met <= times
    }

    /// Remembers the word for an error that events and states show as text alone.
    pub(crate) fn learn(&self, text: String, word: String) {
        self.lock().words.insert(text, word);
    }

    /// The word for an error's text, or the text where none is known.
    pub(crate) fn word(&self, text: &str) -> String {
        let known = self.lock().words.get(text).cloned();
        known.unwrap_or_else(|| error::word(text).to_owned())
    }

    // A std mutex: held for a moment, never over an await.
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
