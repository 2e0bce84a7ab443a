//! A deterministic random number generator.

/// A seeded random number generator (SplitMix64).
///
/// The generator is implemented here because an external crate may produce different numbers in its next version, and
/// the synthetic company generated for a ticker must never change.
#[derive(Debug, Clone)]
pub(crate) struct SeededRng(u64);

impl SeededRng {
    /// Creates a generator whose seed is the hash of a text.
    pub(crate) fn from_text(text: &str) -> Self {
        // FNV-1a gives similar short texts very different seeds.
        let seed = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, it| {
            (hash ^ u64::from(it)).wrapping_mul(0x0100_0000_01b3)
        });
        Self(seed)
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number from `low` to `high`, both inclusive.
    pub(crate) fn between(&mut self, low: i64, high: i64) -> i64 {
        let width = high.abs_diff(low).saturating_add(1);
        low.saturating_add_unsigned(self.next_u64() % width)
    }
}
