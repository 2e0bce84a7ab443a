//! What the parties of a debate are asked.

use super::{Brief, Message, Prompt, assistant, keep, system, user};
use crate::{
    config::Persona,
    transcript::{ConversationEntry, Speaker, View, format_entry},
};

/// Asks the critic for the counterpoints that open all debates about a move.
pub fn critic_opening(critic: &Persona, brief: &Brief) -> Prompt {
    let mut messages = critic_brief(brief);
    messages.push(user(
        "Round 1. Give your initial counterpoints to this move: challenge the reasoning, question the evidence, name \
         the risks."
            .to_owned(),
    ));
    Prompt { system: system(critic, &brief.fence), messages }
}

/// Asks the critic to reply to one decision maker; `log` is their conversation so far.
pub fn critic_reply(
    critic: &Persona,
    brief: &Brief,
    maker: &Persona,
    log: &View<'_>,
    round: u32,
) -> Prompt {
    let mut messages = critic_brief(brief);
    messages.extend(conversation(brief, log, &Speaker::Critic));
    keep(&mut messages);
    let label = maker.label();
    messages.push(user(format!(
        "Round {round} of your conversation with {label}. Reply to the latest rebuttal. Acknowledge what is good in it, \
         press harder where your concerns were evaded, and raise new counterpoints if you see further weaknesses."
    )));
    Prompt { system: system(critic, &brief.fence), messages }
}

/// Asks a decision maker to answer the critic.
pub fn maker_reply(maker: &Persona, brief: &Brief, log: &View<'_>, round: u32) -> Prompt {
    let mut messages = maker_conversation(maker, brief, log);
    messages.push(user(format!(
        "Round {round}. Answer the critic's latest points. Defend the move where you believe it has merit, concede where \
         the critic is right, and cite the findings you rely on, like [F1-07]."
    )));
    Prompt { system: system(maker, &brief.fence), messages }
}

/// The part of a decision maker's prompts that only grows.
pub(super) fn maker_conversation(maker: &Persona, brief: &Brief, log: &View<'_>) -> Vec<Message> {
    let mut messages = vec![user(format!(
        "You are defending this business move for {}.\n\n{}",
        brief.ticker, brief.material
    ))];
    keep(&mut messages);
    messages.extend(conversation(brief, log, &Speaker::DecisionMaker(maker.id.clone())));
    keep(&mut messages);
    messages
}

fn critic_brief(brief: &Brief) -> Vec<Message> {
    let mut messages = vec![user(format!(
        "This business move is proposed for {}.\n\n{}",
        brief.ticker, brief.material
    ))];
    keep(&mut messages);
    messages
}

/// The log as messages: what `own` said as the model's own words, all else fenced.
fn conversation(brief: &Brief, log: &View<'_>, own: &Speaker) -> Vec<Message> {
    let message = |entry: &ConversationEntry| {
        if entry.role == *own {
            assistant(&entry.content)
        } else {
            user(brief.fence.around(&format!("turn of {}", entry.role), &format_entry(entry)))
        }
    };
    let summary = log.summary.iter().map(|it| user(brief.fence.around("earlier turns", it)));
    log.first.iter().map(message).chain(summary).chain(log.last.iter().map(message)).collect()
}
