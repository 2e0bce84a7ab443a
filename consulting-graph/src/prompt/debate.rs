//! What the parties of a debate are asked.

use llm::{
    Message, Request,
    overflow::{Entry, Passage, Round},
};

use super::{Brief, asking, keep};
use crate::{
    config::Persona,
    fence::Fence,
    transcript::{CRITIC, format_turn},
};

/// Asks the critic for the counterpoints that open all debates about a move.
pub fn critic_opening(critic: &Persona, brief: &Brief, fence: &Fence) -> Request {
    let mut messages = critic_brief(brief, fence);
    messages.push(Message::user(
        "Round 1. Give your initial counterpoints to this move: challenge the reasoning, question the evidence, name \
         the risks."
            .to_owned(),
    ));
    asking(critic, fence, messages)
}

/// Asks the critic to reply to one decision maker; `log` is their conversation so far.
pub fn critic_reply(
    critic: &Persona,
    brief: &Brief,
    fence: &Fence,
    maker: &Persona,
    log: &[Passage<'_>],
    round: u32,
) -> Request {
    let mut messages = critic_brief(brief, fence);
    messages.extend(conversation(fence, log, CRITIC));
    keep(&mut messages);
    let label = maker.label();
    messages.push(Message::user(format!(
        "Round {round} of your conversation with {label}. Reply to the latest rebuttal. Acknowledge what is good in it, \
         press harder where your concerns were evaded, and raise new counterpoints if you see further weaknesses."
    )));
    asking(critic, fence, messages)
}

/// Asks a decision maker to answer the critic.
pub fn maker_reply(
    maker: &Persona,
    brief: &Brief,
    fence: &Fence,
    log: &[Passage<'_>],
    round: u32,
) -> Request {
    let mut messages = maker_conversation(maker, brief, fence, log);
    messages.push(Message::user(format!(
        "Round {round}. Answer the critic's latest points. Defend the move where you believe it has merit, concede where \
         the critic is right, and cite the findings you rely on, like [F1-07]."
    )));
    asking(maker, fence, messages)
}

/// The part of a decision maker's prompts that only grows.
pub(super) fn maker_conversation(
    maker: &Persona,
    brief: &Brief,
    fence: &Fence,
    log: &[Passage<'_>],
) -> Vec<Message> {
    let mut messages = vec![Message::user(format!(
        "You are defending this business move for {}.\n\n{}",
        brief.ticker,
        brief.material(fence)
    ))];
    keep(&mut messages);
    messages.extend(conversation(fence, log, &maker.id));
    keep(&mut messages);
    messages
}

fn critic_brief(brief: &Brief, fence: &Fence) -> Vec<Message> {
    let mut messages = vec![Message::user(format!(
        "This business move is proposed for {}.\n\n{}",
        brief.ticker,
        brief.material(fence)
    ))];
    keep(&mut messages);
    messages
}

/// The log as messages: what `own` said as the model's own words, all else fenced.
fn conversation(fence: &Fence, log: &[Passage<'_>], own: &str) -> Vec<Message> {
    let turn = |round: &Round, entry: &Entry| {
        if entry.speaker == own {
            Message::assistant(&*entry.text)
        } else {
            let turn = format_turn(round.number, &entry.speaker, &entry.text);
            Message::user(fence.around(&format!("turn of {}", entry.speaker), &turn))
        }
    };
    let messages = |passage: &Passage<'_>| match passage {
        Passage::Round(round) => round.entries.iter().map(|it| turn(round, it)).collect(),
        Passage::Summary(text) => vec![Message::user(fence.around("earlier turns", text))],
    };
    log.iter().flat_map(messages).collect()
}
