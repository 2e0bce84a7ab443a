//! Rounds of a conversation.

use serde::{Deserialize, Serialize};

/// One round of a conversation between several speakers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    /// Number of the round, starting at 1.
    pub number: u32,
    /// Entries of the round, in order.
    pub entries: Vec<Entry>,
}

/// The contribution of one speaker to a round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Name of the speaker.
    pub speaker: String,
    /// Text of the contribution.
    pub text: String,
}

impl Round {
    /// Creates a round.
    pub fn new(number: u32, entries: Vec<Entry>) -> Self {
        Self { number, entries }
    }
}

impl Entry {
    /// Creates an entry.
    pub fn new(speaker: impl Into<String>, text: impl Into<String>) -> Self {
        Self { speaker: speaker.into(), text: text.into() }
    }
}
