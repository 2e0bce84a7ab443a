//! What a cache keeps to itself: a cache that fails must not fail a run.

use std::{
    error::Error,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

/// How often a cache failed, and why the last time.
///
/// A result that cannot be read is a miss, and one that cannot be kept is not kept: the run goes on and the node
/// runs again. A cache whose count grows is therefore slow, never wrong.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CacheFailures {
    /// How often, since the handle was made.
    pub count: u64,
    /// Why the last time.
    pub last: Option<Arc<dyn Error + Send + Sync>>,
}

/// The failures of a cache and of its clones.
// A std mutex: it is held for a moment only.
#[derive(Clone, Default)]
pub(crate) struct Failures(Arc<Mutex<CacheFailures>>);

impl Failures {
    /// Notes a failure, if it is one.
    pub(crate) fn note<T, E: Error + Send + Sync + 'static>(
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

impl fmt::Debug for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}
