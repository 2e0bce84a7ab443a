//! State of a debate.

use std::collections::{BTreeMap, BTreeSet};

use graph_core::State;
use serde::{Deserialize, Serialize};

use crate::{
    call::{CallSettings, CallUsage, Failure},
    config::{Metric, Persona},
    event::PipelineEvent,
    fence::Fence,
    prompt::Brief,
    score::{MakerScore, Mark},
    transcript::{ConversationEntry, Speaker},
};

/// State of the debate about one move.
#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SandboxState {
    /// The move and the findings that it cites.
    pub brief: Brief,
    /// Participants, metrics and prompt settings.
    pub terms: Terms,
    /// The turns of all conversations. A checkpoint stores only the new ones.
    #[reduce(append)]
    pub turns: Vec<LoggedTurn>,
    /// Number of the current round, starting at 1. Zero before the critic's opening.
    pub current_round: u32,
    pub max_rounds: u32,
    /// Scores by decision maker id.
    pub scores: BTreeMap<String, MakerScore>,
    /// Sum of all scores.
    pub total_score: u32,
    /// Scores before the debate, by decision maker id. Empty unless baseline scoring is enabled.
    pub baseline: BTreeMap<String, MakerScore>,
    /// Caveats that readers of the scores must know about.
    #[reduce(merge)]
    pub marks: BTreeSet<Mark>,
    /// Reason why the debate ended before its last round. `None` if it did not.
    pub ended_early: Option<String>,
    /// Failed calls.
    #[reduce(append)]
    pub failures: Vec<Failure>,
    /// Tokens and cost of every call.
    #[reduce(append)]
    pub calls: Vec<CallUsage>,
    /// Events that the nodes sent.
    #[reduce(append)]
    pub status_updates: Vec<PipelineEvent>,
}

/// A turn with the name of its transcript: `i1` is the conversation with the first decision maker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggedTurn {
    pub log: String,
    #[serde(flatten)]
    pub entry: ConversationEntry,
}

/// Returns the transcripts by name.
pub(crate) fn transcripts(turns: &[LoggedTurn]) -> BTreeMap<String, Vec<ConversationEntry>> {
    let mut logs: BTreeMap<String, Vec<ConversationEntry>> = BTreeMap::new();
    for LoggedTurn { log, entry } in turns {
        logs.entry(log.clone()).or_default().push(entry.clone());
    }
    logs
}

/// Participants and settings of a debate.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Terms {
    /// The critic, who attacks the move.
    pub critic: Participant,
    /// The decision makers, who defend and score the move. The transcript of the first one is named `i1`.
    pub decision_makers: Vec<Participant>,
    /// Settings of the scoring calls, in the order of the decision makers.
    pub scoring: Vec<CallSettings>,
    pub metrics: Vec<Metric>,
    /// Delimiters around untrusted text in prompts.
    pub fence: Fence,
    /// Whether the move is also scored before the debate.
    pub baseline: bool,
}

/// A participant of a debate, with its model settings.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Participant {
    /// Role and system prompt.
    pub persona: Persona,
    pub settings: CallSettings,
    /// Model settings of the calls that summarise earlier rounds for this participant. `None` if the program computes
    /// the summaries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summaries: Option<CallSettings>,
}

/// The conversation between the critic and one decision maker.
pub(super) struct Conversation<'a> {
    /// Index of the decision maker, starting at 0.
    pub(super) idx: usize,
    /// The decision maker.
    pub(super) maker: &'a Participant,
    /// Transcript so far.
    pub(super) log: Vec<ConversationEntry>,
}

/// Returns the log name of the decision maker with this index.
pub(super) fn log_name(idx: usize) -> String {
    format!("i{}", idx + 1)
}

impl SandboxState {
    /// Returns the conversations with all decision makers.
    pub(super) fn conversations(&self) -> Vec<Conversation<'_>> {
        let makers = self.terms.decision_makers.iter().enumerate();
        let mut logs = transcripts(&self.turns);
        let conversation = |(idx, maker)| {
            let log = logs.remove(&log_name(idx)).unwrap_or_default();
            Conversation { idx, maker, log }
        };
        makers.map(conversation).collect()
    }

    /// Returns the conversations in which the critic spoke last in the current round, so that the decision maker is
    /// next.
    pub(super) fn awaiting_maker(&self) -> Vec<Conversation<'_>> {
        let mut conversations = self.conversations();
        conversations.retain(|it| {
            let last = it.log.last();
            last.is_some_and(|it| it.role == Speaker::Critic && it.round == self.current_round)
        });
        conversations
    }

    /// Returns the conversations in which the decision maker spoke last in the current round, so that the critic is
    /// next. A conversation in which a call failed does not continue.
    pub(super) fn awaiting_critic(&self) -> Vec<Conversation<'_>> {
        let mut conversations = self.conversations();
        conversations.retain(|it| {
            let last = it.log.last();
            last.is_some_and(|it| it.role != Speaker::Critic && it.round == self.current_round)
        });
        conversations
    }

    /// Returns whether this is the state between a round and the next one.
    pub(crate) fn ends_round(&self, round: u32) -> bool {
        self.current_round == round && self.awaiting_maker().is_empty() && self.scores.is_empty()
    }

    pub(super) fn has_active_conversation(&self) -> bool {
        !self.awaiting_critic().is_empty()
    }
}
