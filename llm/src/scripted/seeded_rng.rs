//! Generates deterministic pseudorandom numbers from a seed.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A deterministic random number generator. The same seed gives the same numbers.
#[derive(Clone, Debug)]
pub(crate) struct SeededRng {
    state: u64,
}

impl SeededRng {
    pub(crate) fn new(key: u64) -> Self {
        Self { state: key }
    }

    /// Creates a generator for a purpose. Generators with the same key but different purposes are independent.
    pub(crate) fn of(key: u64, purpose: &str) -> Self {
        Self::new(mix(key, purpose.as_bytes()))
    }

    /// Returns the next 64-bit number of the SplitMix64 sequence.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `n`, or zero if `n` is zero.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        if n == 0 { 0 } else { (self.next() % n as u64) as usize }
    }

    /// Returns a number in [0, 1).
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(crate) fn happens(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Returns an integer from `least` to `most`, inclusive.
    pub(crate) fn between(&mut self, least: i64, most: i64) -> i64 {
        let span = most.saturating_sub(least).max(0) as u64;
        least.saturating_add((self.next() % span.saturating_add(1)) as i64)
    }

    /// Returns a random permutation of the numbers below `n`.
    pub(crate) fn order(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        for last in (1..n).rev() {
            order.swap(last, self.below(last + 1));
        }
        order
    }
}

/// Derives a new key from a key and some bytes.
pub(crate) fn mix(key: u64, bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, key)
}
