//! Random numbers for jitter and ids. Not cryptographically secure.

use std::hash::{BuildHasher, RandomState};

/// Returns 64 random bits.
pub(crate) fn bits() -> u64 {
    // Each `RandomState` is created with different keys.
    RandomState::new().hash_one(0)
}

/// Returns a random number in `0.0..1.0`.
pub(crate) fn fraction() -> f64 {
    (bits() >> 11) as f64 / (1u64 << 53) as f64
}
