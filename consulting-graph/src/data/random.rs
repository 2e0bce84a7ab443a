//! Chance that is the same every time.

/// A stream of numbers that depends on nothing but its seed (SplitMix64).
///
/// A random number crate may change its streams between versions; invented companies must not change with it.
#[derive(Debug, Clone)]
pub(crate) struct Chance(u64);

impl Chance {
    /// The stream of a text.
    pub(crate) fn of(text: &str) -> Self {
        // FNV-1a: short texts that differ by a letter get unlike seeds.
        let seed = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, it| {
            (hash ^ u64::from(it)).wrapping_mul(0x0100_0000_01b3)
        });
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A whole number from `low` to `high`, both possible.
    pub(crate) fn between(&mut self, low: i64, high: i64) -> i64 {
        let width = high.abs_diff(low).saturating_add(1);
        low.saturating_add_unsigned(self.next() % width)
    }
}
