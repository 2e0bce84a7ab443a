//! Nodes of a debate: the turns of the critic and of the decision makers.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;
use graph_core::{Context, NodeError};
use llm::overflow::TranscriptItem;
use sandbox_vm::guest::Host;

use super::{
    files,
    state::{Conversation, LoggedTurn, SandboxState, SandboxStateUpdate, log_name, transcripts},
    turn::{Turn, TurnOutcome},
};
use crate::{
    call::{Answer, CallOutcome, CallUsage, Failure, FailureKind},
    config::Group,
    event::{PipelineEvent, RoundStatus},
    prompt,
    score::Mark,
    transcript::{ConversationEntry, Speaker},
};

/// Asks the critic to open the debate with one statement for all decision makers.
pub(super) async fn critic_round_1(
    debate: &SandboxState,
    cx: &Context<Host>,
) -> Result<SandboxStateUpdate, NodeError> {
    let mut round = RoundUpdate::start(debate, 1, RoundStatus::CriticResponding, cx).await;
    let critic = &debate.terms.critic;
    let request = prompt::critic_opening(&critic.persona, &debate.brief, &debate.terms.fence);
    let turn = Turn {
        participant: critic,
        group: Group::Critic,
        key: "opening",
        round: 1,
        reply_to: None,
    };
    let outcome = turn.run(debate, cx, |_| request.clone(), &[]).await?;
    for conversation in debate.conversations() {
        round.record_turn(&conversation, Speaker::Critic, &outcome);
    }
    round.record_usage(&outcome);
    round.finish(debate, RoundStatus::CriticResponded, cx).await
}

/// Asks all decision makers concurrently to answer the critic, each in its own conversation.
pub(super) async fn dm_respond(
    debate: &SandboxState,
    cx: &Context<Host>,
) -> Result<SandboxStateUpdate, NodeError> {
    let number = debate.current_round;
    let mut round = RoundUpdate::start(debate, number, RoundStatus::DmResponding, cx).await;
    for turn in
        join_all(debate.awaiting_maker().into_iter().map(|it| maker_turn(debate, it, cx))).await
    {
        let (conversation, outcome) = turn?;
        let speaker = Speaker::DecisionMaker(conversation.maker.persona.id.clone());
        round.record_turn(&conversation, speaker, &outcome);
        round.record_usage(&outcome);
    }
    round.finish(debate, RoundStatus::DmResponded, cx).await
}

/// Asks the critic concurrently to answer all decision makers, each in its own conversation.
pub(super) async fn critic_individual(
    debate: &SandboxState,
    cx: &Context<Host>,
) -> Result<SandboxStateUpdate, NodeError> {
    let number = debate.current_round + 1;
    let mut round = RoundUpdate::start(debate, number, RoundStatus::CriticResponding, cx).await;
    for turn in
        join_all(debate.awaiting_critic().into_iter().map(|it| critic_turn(debate, it, cx))).await
    {
        let (conversation, outcome) = turn?;
        round.record_turn(&conversation, Speaker::Critic, &outcome);
        round.record_usage(&outcome);
    }
    round.finish(debate, RoundStatus::CriticResponded, cx).await
}

/// Asks a decision maker for its turn.
async fn maker_turn<'a>(
    debate: &SandboxState,
    conversation: Conversation<'a>,
    cx: &Context<Host>,
) -> Result<(Conversation<'a>, TurnOutcome), NodeError> {
    let (persona, round) = (&conversation.maker.persona, debate.current_round);
    let turn = Turn {
        participant: conversation.maker,
        group: Group::DecisionMakers,
        key: &persona.id,
        round,
        reply_to: None,
    };
    let request = |log: &[TranscriptItem<'_>]| {
        prompt::maker_reply(persona, &debate.brief, &debate.terms.fence, log, round)
    };
    let outcome = turn.run(debate, cx, request, &conversation.log).await?;
    Ok((conversation, outcome))
}

/// Asks the critic for its turn in one conversation.
async fn critic_turn<'a>(
    debate: &SandboxState,
    conversation: Conversation<'a>,
    cx: &Context<Host>,
) -> Result<(Conversation<'a>, TurnOutcome), NodeError> {
    let (critic, maker, round) =
        (&debate.terms.critic, &conversation.maker.persona, debate.current_round + 1);
    let (key, reply_to) = (&maker.id, Some(&*maker.id));
    let turn = Turn { participant: critic, group: Group::Critic, key, round, reply_to };
    let request = |log: &[TranscriptItem<'_>]| {
        let fence = &debate.terms.fence;
        prompt::critic_reply(&critic.persona, &debate.brief, fence, maker, log, round)
    };
    let outcome = turn.run(debate, cx, request, &conversation.log).await?;
    Ok((conversation, outcome))
}

/// State changes of half a round, which consists either of the critic's turns or of the decision makers' turns.
struct RoundUpdate {
    number: u32,
    /// All transcripts, with the new turns.
    logs: BTreeMap<String, Vec<ConversationEntry>>,
    new_turns: Vec<LoggedTurn>,
    calls: Vec<CallUsage>,
    marks: BTreeSet<Mark>,
    ended_early: Option<String>,
    failures: Vec<Failure>,
    events: Vec<PipelineEvent>,
}

impl RoundUpdate {
    async fn start(
        debate: &SandboxState,
        number: u32,
        status: RoundStatus,
        cx: &Context<Host>,
    ) -> Self {
        let mut round = Self {
            number,
            logs: transcripts(&debate.turns),
            new_turns: Vec::new(),
            calls: Vec::new(),
            marks: BTreeSet::new(),
            ended_early: None,
            failures: Vec::new(),
            events: Vec::new(),
        };
        round.emit(debate, status, cx).await;
        round
    }

    /// Appends a turn to the transcript of its conversation. A failed turn leaves the transcript unchanged.
    fn record_turn(
        &mut self,
        conversation: &Conversation<'_>,
        speaker: Speaker,
        turn: &TurnOutcome,
    ) {
        if turn.is_shortened {
            self.marks.insert(Mark::Truncated);
        }
        match &turn.outcome {
            CallOutcome::Answered(Answer { text, is_cut, .. }) => {
                if *is_cut {
                    self.marks.insert(Mark::CutOff);
                }
                let log = log_name(conversation.idx);
                let entry =
                    ConversationEntry { role: speaker, content: text.clone(), round: self.number };
                self.logs.entry(log.clone()).or_default().push(entry.clone());
                self.new_turns.push(LoggedTurn { log, entry });
            }
            CallOutcome::Failed(failure) => {
                self.marks.insert(Mark::Incomplete);
                let to = match speaker {
                    Speaker::Critic if self.number > 1 => {
                        format!(" to {}", conversation.maker.persona.id)
                    }
                    _ => String::new(),
                };
                let place = format!("round {}, {speaker}{to}", self.number);
                let failure = Failure::new(place, failure.clone());
                if failure.kind == FailureKind::BudgetExhausted {
                    self.ended_early = Some(failure.reason.clone());
                }
                // All conversations share the call for the opening, so its failure is reported only once.
                if !self.failures.contains(&failure) {
                    self.failures.push(failure);
                }
            }
        }
    }

    /// Records the tokens and cost of a turn. Called only once for the opening, which all conversations share.
    fn record_usage(&mut self, turn: &TurnOutcome) {
        self.calls.extend(turn.summary_calls.iter().cloned());
        if let CallOutcome::Answered(Answer { usage, .. }) = &turn.outcome {
            self.calls.push(usage.clone());
        }
    }

    async fn finish(
        mut self,
        debate: &SandboxState,
        status: RoundStatus,
        cx: &Context<Host>,
    ) -> Result<SandboxStateUpdate, NodeError> {
        // A round without any successful turn does not advance `current_round`.
        let has_turns = !self.new_turns.is_empty();
        if has_turns {
            self.emit(debate, status, cx).await;
        }
        let written = files::write_logs(cx.deps().workspace(), &self.logs);
        written.map_err(NodeError::terminal)?;
        let mut update = SandboxState::update()
            .turns(self.new_turns)
            .calls(self.calls)
            .marks(self.marks)
            .failures(self.failures)
            .status_updates(self.events);
        if has_turns {
            update = update.current_round(self.number);
        }
        if let Some(reason) = self.ended_early {
            update = update.ended_early(Some(reason));
        }
        Ok(update)
    }

    async fn emit(&mut self, debate: &SandboxState, status: RoundStatus, cx: &Context<Host>) {
        let text = |it: &LoggedTurn| (it.log.clone(), it.entry.content.clone());
        let event = PipelineEvent::SandboxRound {
            move_id: debate.brief.move_id.clone(),
            round: self.number,
            status,
            texts: self.new_turns.iter().map(text).collect(),
        };
        cx.emit(&event).await;
        self.events.push(event);
    }
}
