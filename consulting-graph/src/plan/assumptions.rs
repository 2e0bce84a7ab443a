//! The assumptions of an estimate.

use serde::Serialize;

use crate::models::MAX_CONCURRENT_CALLS;

/// Assumptions that an estimate is based on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Assumptions {
    /// Number of concurrent debates.
    pub concurrency: usize,
    /// Whether moves are also scored before the debates.
    pub baseline: bool,
    pub seconds_per_call: f64,
    pub max_concurrent_calls: usize,
    /// Length in tokens of the shortest prefix that a provider is assumed to cache. Most providers also cache shorter
    /// prefixes.
    pub min_cached_tokens: u64,
    /// Lengths of the texts that models read and write.
    pub sizes: Sizes,
}

/// Assumed lengths of texts in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Sizes {
    /// The data given to one synthesizer.
    pub data: u64,
    /// A document written by a synthesizer.
    pub document: u64,
    /// The findings from one document.
    pub findings: u64,
    /// A move with the findings it cites.
    pub the_move: u64,
    /// A turn in a debate.
    pub turn: u64,
    /// Scores with their reasoning.
    pub scores: u64,
}

impl Default for Assumptions {
    fn default() -> Self {
        Self {
            concurrency: 1,
            baseline: false,
            seconds_per_call: 6.0,
            max_concurrent_calls: MAX_CONCURRENT_CALLS,
            min_cached_tokens: 4096,
            sizes: Sizes::default(),
        }
    }
}

impl Default for Sizes {
    fn default() -> Self {
        Self { data: 3000, document: 2500, findings: 1500, the_move: 900, turn: 500, scores: 150 }
    }
}
