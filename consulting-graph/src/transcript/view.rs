//! What a model gets to see of a debate: all of it, or, when that does not fit, its beginning and its end.

use super::{ConversationEntry, Speaker};
use crate::finding::cited;

/// A debate as a prompt shows it. The log itself is never shortened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View<'a> {
    /// The turns before the gap.
    pub first: &'a [ConversationEntry],
    /// What stands for the turns in the gap.
    pub summary: Option<String>,
    /// The turns after the gap.
    pub last: &'a [ConversationEntry],
}

impl<'a> View<'a> {
    /// The whole debate.
    pub fn whole(log: &'a [ConversationEntry]) -> Self {
        Self { first: log, summary: None, last: &[] }
    }

    /// The first round, a summary, and the last `rounds` rounds. None when nothing lies between them.
    ///
    /// The summary is made by rule: of each turn its first sentence, what it concedes and what it cites. So a run that
    /// is repeated shows the same.
    pub fn shortened(log: &'a [ConversationEntry], rounds: u32) -> Option<Self> {
        let newest = log.last()?.round;
        let first_end = log.partition_point(|it| it.round <= 1);
        let last_start = log.partition_point(|it| it.round <= newest.saturating_sub(rounds));
        let gap = log.get(first_end..last_start).filter(|it| !it.is_empty())?;
        Some(Self {
            first: &log[..first_end],
            summary: Some(summary(gap)),
            last: &log[last_start..],
        })
    }
}

fn summary(gap: &[ConversationEntry]) -> String {
    let rounds = (gap.first().map_or(0, |it| it.round), gap.last().map_or(0, |it| it.round));
    let head = match rounds {
        (from, to) if from == to => format!("[Round {from} summarised]"),
        (from, to) => format!("[Rounds {from}\u{2013}{to} summarised]"),
    };
    gap.iter().fold(head, |text, it| format!("{text}\n{}", digest(it)))
}

fn digest(entry: &ConversationEntry) -> String {
    let speaker = match &entry.role {
        Speaker::Critic => "CRITIC",
        Speaker::DecisionMaker(id) => id,
    };
    let sentences = crate::sentence::sentences(&entry.content);
    let first = sentences.first().copied().unwrap_or_default();
    let mut text = format!("- Round {}, {speaker}: {first}", entry.round);
    for conceded in sentences.iter().skip(1).filter(|it| concedes(it)) {
        text.push_str(&format!(" Conceded: {conceded}"));
    }
    let mut ids: Vec<String> = cited(&entry.content)
        .into_iter()
        .filter_map(|(_, id)| id.ok())
        .map(|it| it.to_string())
        .collect();
    ids.sort();
    ids.dedup();
    if !ids.is_empty() {
        text.push_str(&format!(" Cited: {}.", ids.join(", ")));
    }
    text
}

/// Whether a sentence gives a point to the other side.
pub(crate) fn concedes(sentence: &str) -> bool {
    const PHRASES: &[&str] = &[
        "i concede",
        "i withdraw",
        "i drop",
        "i give up",
        "i no longer",
        "i accept your",
        "i stand corrected",
        "you are right",
        "you're right",
    ];
    let lower = sentence.to_lowercase();
    PHRASES.iter().any(|it| lower.contains(it))
}
