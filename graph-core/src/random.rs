//! A little randomness, for jitter and ids; nothing that must be hard to guess.

use std::hash::{BuildHasher, RandomState};

/// Sixty-four random bits.
pub(crate) fn bits() -> u64 {
    // Each `RandomState` has keys of its own.
    RandomState::new().hash_one(0)
}

/// A random number from 0 to 1.
pub(crate) fn fraction() -> f64 {
    (bits() >> 11) as f64 / (1u64 << 53) as f64
}
