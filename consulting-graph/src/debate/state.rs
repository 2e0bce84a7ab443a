//! The state of a debate.

use std::collections::{BTreeMap, BTreeSet};

use graph_core::State;
use serde::{Deserialize, Serialize};

use crate::{
    ask::{Paid, Voice},
    config::{Metric, Persona},
    event::PipelineEvent,
    fence::Fence,
    prompt::Brief,
    score::{MakerScore, Mark},
    transcript::{ConversationEntry, Speaker},
};

/// The debate about one move.
#[derive(State, Clone, Debug, Default, Serialize)]
pub struct SandboxState {
    /// The move and its evidence.
    pub brief: Brief,
    /// Who takes part, and how.
    pub terms: Terms,
    /// The conversations, `i1` with the first decision maker and so on. Each round writes them anew.
    pub logs: BTreeMap<String, Vec<ConversationEntry>>,
    /// The round that goes on, from 1; zero before the opening.
    pub current_round: u32,
    /// How many there are to be.
    pub max_rounds: u32,
    /// Each decision maker's scores.
    pub scores: BTreeMap<String, MakerScore>,
    /// Their sum.
    pub total_score: u32,
    /// Each decision maker's scores before the debate, where they were asked for.
    pub baseline: BTreeMap<String, MakerScore>,
    /// What a reader of the scores must know.
    #[reduce(merge)]
    pub marks: BTreeSet<Mark>,
    /// Why no further round was opened, where one was left.
    pub ended_early: Option<String>,
    /// Who was not heard, and why.
    #[reduce(append)]
    pub warnings: Vec<String>,
    /// What was paid.
    #[reduce(append)]
    pub calls: Vec<Paid>,
    /// What happened.
    #[reduce(append)]
    pub status_updates: Vec<PipelineEvent>,
}

/// Who takes part in a debate, and how.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Terms {
    /// Who attacks.
    pub critic: Speaking,
    /// Who defends and scores; the first keeps `i1`.
    pub decision_makers: Vec<Speaking>,
    /// How each decision maker's scoring calls are made, in their order.
    pub scoring: Vec<Voice>,
    /// What is scored.
    pub metrics: Vec<Metric>,
    /// What untrusted text stands between.
    pub fence: Fence,
    /// Whether scores are asked for before the debate too.
    pub baseline: bool,
}

/// Someone who speaks, and how.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Speaking {
    /// Who.
    pub persona: Persona,
    /// How.
    pub voice: Voice,
}

/// A decision maker's place in a debate.
pub(super) struct Seat<'a> {
    /// Its number, from 0.
    pub(super) idx: usize,
    /// Who sits there.
    pub(super) maker: &'a Speaking,
    /// Its conversation with the critic.
    pub(super) log: &'a [ConversationEntry],
}

/// The name of a decision maker's log.
pub(super) fn log_name(idx: usize) -> String {
    format!("i{}", idx + 1)
}

impl SandboxState {
    /// All decision makers with their conversations.
    pub(super) fn seats(&self) -> Vec<Seat<'_>> {
        let makers = self.terms.decision_makers.iter().enumerate();
        let seat = |(idx, maker)| {
            let log = self.logs.get(&log_name(idx)).map_or(&[][..], Vec::as_slice);
            Seat { idx, maker, log }
        };
        makers.map(seat).collect()
    }

    /// Those whose turn it is: the critic has spoken to them in this round.
    pub(super) fn to_answer(&self) -> Vec<Seat<'_>> {
        let mut seats = self.seats();
        seats.retain(|it| {
            let last = it.log.last();
            last.is_some_and(|it| it.role == Speaker::Critic && it.round == self.current_round)
        });
        seats
    }

    /// Those whom the critic is to answer: they have spoken in this round. Who failed once stays silent.
    pub(super) fn answered(&self) -> Vec<Seat<'_>> {
        let mut seats = self.seats();
        seats.retain(|it| {
            let last = it.log.last();
            last.is_some_and(|it| it.role != Speaker::Critic && it.round == self.current_round)
        });
        seats
    }

    pub(super) fn is_anyone_speaking(&self) -> bool {
        !self.answered().is_empty()
    }
}
