//! Transcript of a debate between the critic and one decision maker.

use std::fmt;

use llm::overflow::{Entry, Round, TranscriptItem};
use serde::{Deserialize, Serialize};

use crate::markdown::{escape_line_starts, escape_markup};

/// Name of the critic in transcripts.
pub(crate) const CRITIC: &str = "critic";

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Speaker {
    Critic,
    /// A decision maker, by id.
    DecisionMaker(String),
}

/// One turn of a debate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConversationEntry {
    pub role: Speaker,
    pub content: String,
    pub round: u32,
}

/// Returns a copy of the log with one more turn.
pub(crate) fn append_to_log(
    log: &[ConversationEntry],
    role: Speaker,
    content: &str,
    round: u32,
) -> Vec<ConversationEntry> {
    let mut longer = log.to_vec();
    longer.push(ConversationEntry { role, content: content.to_owned(), round });
    longer
}

/// Renders the log as Markdown, for people and for prompts.
pub(crate) fn format_transcript(log: &[ConversationEntry]) -> String {
    log.iter().map(format_entry).collect::<Vec<_>>().join("\n\n---\n\n")
}

/// Returns the log with escaped turns. They cannot imitate the structure of a Markdown document, such as the label of
/// another turn, and their HTML, links and images have no effect.
pub(crate) fn escaped(log: &[ConversationEntry]) -> Vec<ConversationEntry> {
    let escape = |it: &ConversationEntry| ConversationEntry {
        content: escape_markup(&escape_line_starts(&it.content)),
        ..it.clone()
    };
    log.iter().map(escape).collect()
}

/// Renders one turn of a transcript.
pub(crate) fn format_entry(entry: &ConversationEntry) -> String {
    format_turn(entry.round, &entry.role.to_string(), &entry.content)
}

/// Renders one turn of a transcript from its parts.
pub(crate) fn format_turn(round: u32, speaker: &str, text: &str) -> String {
    let label = match speaker {
        CRITIC => "CRITIC".to_owned(),
        id => format!("DECISION MAKER ({id})"),
    };
    format!("**[Round {round}] {label}:**\n{text}")
}

/// Groups the turns in the log by round, because logs that exceed a context window are shortened by whole rounds.
pub(crate) fn rounds(log: &[ConversationEntry]) -> Vec<Round> {
    let entry = |it: &ConversationEntry| Entry::new(it.role.to_string(), &*it.content);
    let round = |it: &[ConversationEntry]| {
        Round::new(it.first().map_or(0, |it| it.round), it.iter().map(entry).collect())
    };
    log.chunk_by(|a, b| a.round == b.round).map(round).collect()
}

/// Returns the transcript without a summary of earlier rounds.
pub(crate) fn whole(log: &[Round]) -> Vec<TranscriptItem<'_>> {
    log.iter().map(TranscriptItem::Round).collect()
}

impl fmt::Display for Speaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Critic => f.write_str(CRITIC),
            Self::DecisionMaker(id) => f.write_str(id),
        }
    }
}

impl From<String> for Speaker {
    fn from(text: String) -> Self {
        if text == CRITIC { Self::Critic } else { Self::DecisionMaker(text) }
    }
}

impl From<Speaker> for String {
    fn from(speaker: Speaker) -> Self {
        speaker.to_string()
    }
}
