//! Locking for a moment.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks for a moment, never over an await; what a panic left behind is still whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
