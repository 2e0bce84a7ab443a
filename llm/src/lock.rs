//! Locks that are held only briefly.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex and ignores poisoning, because no critical section of this crate leaves inconsistent data behind.
///
/// Callers hold the guard briefly and never across an await.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
