//! The turns of a debate.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;
use graph_core::{Context, NodeError};
use llm::{
    Request,
    overflow::{Passage, Window, fit_rounds},
};

use super::{
    Desk, SandboxState, SandboxStateUpdate, notes,
    state::{Seat, Speaking, log_name},
};
use crate::{
    ask::{Ask, Heard, Paid, Said, Silence, Why},
    config::Group,
    event::{PipelineEvent, RoundStatus},
    prompt,
    score::Mark,
    transcript::{ConversationEntry, Speaker, append_to_log, rounds},
};

/// One opening for everybody.
pub(super) async fn critic_round_1(
    debate: &SandboxState,
    cx: &Context<Desk>,
) -> Result<SandboxStateUpdate, NodeError> {
    let mut round = Round::begin(debate, 1, RoundStatus::CriticResponding, cx).await;
    let critic = &debate.terms.critic;
    let request = prompt::critic_opening(&critic.persona, &debate.brief, &debate.terms.fence);
    let turn = Turn { speaking: critic, group: Group::Critic, key: "opening", round: 1 };
    let heard = turn.take(debate, cx, |_| request.clone(), &[]).await?;
    for seat in debate.seats() {
        round.note(&seat, Speaker::Critic, &heard);
    }
    round.pay(&heard);
    round.end(debate, RoundStatus::CriticResponded, cx).await
}

/// Each decision maker answers the critic, all at once, each from its own conversation.
pub(super) async fn dm_respond(
    debate: &SandboxState,
    cx: &Context<Desk>,
) -> Result<SandboxStateUpdate, NodeError> {
    let number = debate.current_round;
    let mut round = Round::begin(debate, number, RoundStatus::DmResponding, cx).await;
    for answered in join_all(debate.to_answer().into_iter().map(|it| answer(debate, it, cx))).await
    {
        let (seat, heard) = answered?;
        let speaker = Speaker::DecisionMaker(seat.maker.persona.id.clone());
        round.note(&seat, speaker, &heard);
        round.pay(&heard);
    }
    round.end(debate, RoundStatus::DmResponded, cx).await
}

/// The critic answers each decision maker, all at once, each in its own conversation.
pub(super) async fn critic_individual(
    debate: &SandboxState,
    cx: &Context<Desk>,
) -> Result<SandboxStateUpdate, NodeError> {
    let number = debate.current_round + 1;
    let mut round = Round::begin(debate, number, RoundStatus::CriticResponding, cx).await;
    for answered in join_all(debate.answered().into_iter().map(|it| reply(debate, it, cx))).await {
        let (seat, heard) = answered?;
        round.note(&seat, Speaker::Critic, &heard);
        round.pay(&heard);
    }
    round.end(debate, RoundStatus::CriticResponded, cx).await
}

/// A decision maker's turn.
async fn answer<'a>(
    debate: &SandboxState,
    seat: Seat<'a>,
    cx: &Context<Desk>,
) -> Result<(Seat<'a>, Spoken), NodeError> {
    let (persona, round) = (&seat.maker.persona, debate.current_round);
    let turn = Turn { speaking: seat.maker, group: Group::DecisionMakers, key: &persona.id, round };
    let request = |log: &[Passage<'_>]| {
        prompt::maker_reply(persona, &debate.brief, &debate.terms.fence, log, round)
    };
    let spoken = turn.take(debate, cx, request, seat.log).await?;
    Ok((seat, spoken))
}

/// The critic's turn in a conversation.
async fn reply<'a>(
    debate: &SandboxState,
    seat: Seat<'a>,
    cx: &Context<Desk>,
) -> Result<(Seat<'a>, Spoken), NodeError> {
    let (critic, maker, round) =
        (&debate.terms.critic, &seat.maker.persona, debate.current_round + 1);
    let turn = Turn { speaking: critic, group: Group::Critic, key: &maker.id, round };
    let request = |log: &[Passage<'_>]| {
        let fence = &debate.terms.fence;
        prompt::critic_reply(&critic.persona, &debate.brief, fence, maker, log, round)
    };
    let spoken = turn.take(debate, cx, request, seat.log).await?;
    Ok((seat, spoken))
}

/// Whose turn it is.
pub(super) struct Turn<'a> {
    pub(super) speaking: &'a Speaking,
    pub(super) group: Group,
    /// Tells calls of one node apart.
    pub(super) key: &'a str,
    pub(super) round: u32,
}

/// What was heard in a turn.
pub(super) struct Spoken {
    pub(super) heard: Heard,
    /// What was asked; not what would have been, where it did not fit.
    pub(super) request: Option<Request>,
    /// Whether the conversation had to be shortened for it.
    pub(super) is_shortened: bool,
}

impl Turn<'_> {
    /// Asks for a turn, with as much of the conversation as the model can read.
    pub(super) async fn take(
        &self,
        debate: &SandboxState,
        cx: &Context<Desk>,
        request: impl Fn(&[Passage<'_>]) -> Request,
        log: &[ConversationEntry],
    ) -> Result<Spoken, NodeError> {
        let voice = &self.speaking.voice;
        let request = |log: &[Passage<'_>]| voice.set(request(log));
        let log = rounds(log);
        let (request, is_shortened) = match &voice.window {
            Some(window) => match fit(window, &log, request) {
                Ok(fitted) => fitted,
                Err(why) => {
                    let heard = Heard::Silent(Silence { kind: Why::Failed, why });
                    return Ok(Spoken { heard, request: None, is_shortened: true });
                }
            },
            None => (request(&log.iter().map(Passage::Round).collect::<Vec<_>>()), false),
        };
        let heard = self.ask(debate, cx, request.clone()).await?;
        Ok(Spoken { heard, request: Some(request), is_shortened })
    }

    /// Asks the host for a call.
    pub(super) async fn ask(
        &self,
        debate: &SandboxState,
        cx: &Context<Desk>,
        request: Request,
    ) -> Result<Heard, NodeError> {
        let ask = Ask {
            who: self.speaking.persona.id.clone(),
            group: self.group,
            move_id: Some(debate.brief.move_id.clone()),
            round: self.round,
            request,
        };
        cx.deps().ask(cx, self.key, ask).await
    }
}

fn fit(
    window: &Window,
    log: &[llm::overflow::Round],
    request: impl Fn(&[Passage<'_>]) -> Request,
) -> Result<(Request, bool), String> {
    let fitted = fit_rounds(window, log, request).map_err(|error| error.to_string())?;
    Ok((fitted.request, !fitted.summarised.is_empty()))
}

/// Half a round: what changes in it.
struct Round {
    number: u32,
    logs: BTreeMap<String, Vec<ConversationEntry>>,
    said: BTreeMap<String, String>,
    calls: Vec<Paid>,
    marks: BTreeSet<Mark>,
    ended_early: Option<String>,
    warnings: Vec<String>,
    events: Vec<PipelineEvent>,
}

impl Round {
    async fn begin(
        debate: &SandboxState,
        number: u32,
        status: RoundStatus,
        cx: &Context<Desk>,
    ) -> Self {
        let mut round = Self {
            number,
            logs: debate.logs.clone(),
            said: BTreeMap::new(),
            calls: Vec::new(),
            marks: BTreeSet::new(),
            ended_early: None,
            warnings: Vec::new(),
            events: Vec::new(),
        };
        round.tell(debate, status, cx).await;
        round
    }

    /// Takes in what was said to or by a decision maker. Who was not heard leaves the log where it is.
    fn note(&mut self, seat: &Seat<'_>, speaker: Speaker, spoken: &Spoken) {
        if spoken.is_shortened {
            self.marks.insert(Mark::Truncated);
        }
        match &spoken.heard {
            Heard::Said(Said { text, .. }) => {
                let name = log_name(seat.idx);
                self.logs.insert(name.clone(), append_to_log(seat.log, speaker, text, self.number));
                self.said.insert(name, text.clone());
            }
            Heard::Silent(Silence { kind, why }) => {
                self.marks.insert(Mark::Incomplete);
                let warning = format!("round {}, {speaker}: {why}", self.number);
                // The opening is one call, though nobody hears it.
                if !self.warnings.contains(&warning) {
                    self.warnings.push(warning);
                }
                if *kind == Why::Spent {
                    self.ended_early = Some(why.clone());
                }
            }
        }
    }

    /// Takes in what a call cost. The opening is one call, though everybody hears it.
    fn pay(&mut self, spoken: &Spoken) {
        if let Heard::Said(Said { paid, .. }) = &spoken.heard {
            self.calls.push(paid.clone());
        }
    }

    async fn end(
        mut self,
        debate: &SandboxState,
        status: RoundStatus,
        cx: &Context<Desk>,
    ) -> Result<SandboxStateUpdate, NodeError> {
        // A round in which nobody was heard was not opened.
        let is_opened = !self.said.is_empty();
        if is_opened {
            self.tell(debate, status, cx).await;
        }
        let written = notes::write_logs(cx.deps().workspace(), &self.logs);
        written.map_err(NodeError::terminal)?;
        let mut update = SandboxState::update()
            .logs(self.logs)
            .calls(self.calls)
            .marks(self.marks)
            .warnings(self.warnings)
            .status_updates(self.events);
        if is_opened {
            update = update.current_round(self.number);
        }
        if let Some(why) = self.ended_early {
            update = update.ended_early(Some(why));
        }
        Ok(update)
    }

    async fn tell(&mut self, debate: &SandboxState, status: RoundStatus, cx: &Context<Desk>) {
        let event = PipelineEvent::SandboxRound {
            move_id: debate.brief.move_id.clone(),
            round: self.number,
            status,
            said: self.said.clone(),
        };
        cx.emit(&event).await;
        self.events.push(event);
    }
}
