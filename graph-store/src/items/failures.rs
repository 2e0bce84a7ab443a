//! Failures of a cache. They are counted and do not fail the run.

use std::{
    error::Error,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

/// The number of failures of a cache, and the most recent error.
///
/// A result that cannot be read counts as a miss, and a result that cannot be stored is dropped. The run continues,
/// and the node is executed again. A failing cache therefore slows down runs but never causes wrong results.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CacheFailures {
    /// Number of failures since the handle was created.
    pub count: u64,
    /// The most recent error.
    pub last: Option<Arc<dyn Error + Send + Sync>>,
}

/// The failure counter that a cache shares with its clones.
// A std mutex, because it is only locked briefly and never across an await.
#[derive(Clone, Default)]
pub(crate) struct FailureCounter(Arc<Mutex<CacheFailures>>);

impl FailureCounter {
    /// Returns the value of `result`. If it is an error, counts the error and returns `None`.
    pub(crate) fn record<T, E: Error + Send + Sync + 'static>(
        &self,
        result: Result<T, E>,
    ) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                failures.count += 1;
                failures.last = Some(Arc::new(error));
                None
            }
        }
    }

    pub(crate) fn get(&self) -> CacheFailures {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for FailureCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}
