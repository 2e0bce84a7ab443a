//! Prompts for the turns of a debate.

use llm::{
    Message, Request,
    overflow::{Entry, Round, TranscriptItem},
};

use super::{
    brief::Brief,
    request::{mark_cacheable, request_for},
};
use crate::{
    config::Persona,
    fence::Fence,
    transcript::{CRITIC, format_turn},
};

/// Builds the request to the critic for the counterpoints that open all conversations about a move.
pub(crate) fn critic_opening(critic: &Persona, brief: &Brief, fence: &Fence) -> Request {
    let mut messages = critic_brief(brief, fence);
    messages.push(Message::user(
        "Round 1. Give your initial counterpoints to this move: challenge the reasoning, question the evidence, and \
         name the risks."
            .to_owned(),
    ));
    request_for(critic, fence, messages)
}

/// Builds the request to the critic for a reply to one decision maker. `log` is their conversation so far.
pub(crate) fn critic_reply(
    critic: &Persona,
    brief: &Brief,
    fence: &Fence,
    maker: &Persona,
    log: &[TranscriptItem<'_>],
    round: u32,
) -> Request {
    let mut messages = critic_brief(brief, fence);
    messages.extend(conversation(fence, log, CRITIC));
    mark_cacheable(&mut messages);
    let label = maker.label();
    messages.push(Message::user(format!(
        "Round {round} of your conversation with {label}. Reply to the latest rebuttal. Acknowledge its good points, \
         press harder where your concerns were evaded, and raise new counterpoints if you see further weaknesses."
    )));
    request_for(critic, fence, messages)
}

/// Builds the request to a decision maker for an answer to the critic. `log` is their conversation so far.
pub(crate) fn maker_reply(
    maker: &Persona,
    brief: &Brief,
    fence: &Fence,
    log: &[TranscriptItem<'_>],
    round: u32,
) -> Request {
    let mut messages = maker_conversation(maker, brief, fence, log);
    messages.push(Message::user(format!(
        "Round {round}. Answer the critic's latest points. Defend the move where you believe it has merit, concede where \
         the critic is right, and cite the findings you rely on, such as [F1-07]."
    )));
    request_for(maker, fence, messages)
}

/// Builds the request to a model for a summary of rounds that are left out of a longer prompt.
pub(crate) fn summary(brief: &Brief, fence: &Fence, rounds: &[Round]) -> Request {
    let turn = |round: &Round, it: &Entry| format_turn(round.number, &it.speaker, &it.text);
    let turns = rounds.iter().flat_map(|round| round.entries.iter().map(move |it| turn(round, it)));
    let turns = fence.wrap("earlier turns", &turns.collect::<Vec<_>>().join("\n\n"));
    let message = format!(
        "These are earlier turns of a debate about move {} for {}.\n\n{turns}\n\nSummarise them in at most 200 words \
         for participants who can no longer read them. State the arguments of each side, what it conceded, and which \
         questions are open. Keep the figures, dates and citations, such as [F1-07], that the arguments rely on. Do not \
         judge, and add nothing that was not said.",
        brief.move_id, brief.ticker
    );
    let system = format!("You write neutral summaries of debates.\n\n{}", fence.instruction());
    Request::conversation(vec![Message::user(message)]).system(system)
}

/// Returns the messages that every prompt for a decision maker starts with. In later rounds, messages are only
/// appended.
pub(crate) fn maker_conversation(
    maker: &Persona,
    brief: &Brief,
    fence: &Fence,
    log: &[TranscriptItem<'_>],
) -> Vec<Message> {
    let mut messages = vec![Message::user(format!(
        "You are defending this business move for {}.\n\n{}",
        brief.ticker,
        brief.material(fence)
    ))];
    mark_cacheable(&mut messages);
    messages.extend(conversation(fence, log, &maker.id));
    mark_cacheable(&mut messages);
    messages
}

fn critic_brief(brief: &Brief, fence: &Fence) -> Vec<Message> {
    let mut messages = vec![Message::user(format!(
        "This business move is proposed for {}.\n\n{}",
        brief.ticker,
        brief.material(fence)
    ))];
    mark_cacheable(&mut messages);
    messages
}

/// Converts the log to messages. Turns of the speaker `own` become messages of the model itself; all other turns are
/// fenced.
fn conversation(fence: &Fence, log: &[TranscriptItem<'_>], own: &str) -> Vec<Message> {
    let turn = |round: &Round, entry: &Entry| {
        if entry.speaker == own {
            Message::assistant(&*entry.text)
        } else {
            let turn = format_turn(round.number, &entry.speaker, &entry.text);
            Message::user(fence.wrap(&format!("turn of {}", entry.speaker), &turn))
        }
    };
    let messages = |passage: &TranscriptItem<'_>| match passage {
        TranscriptItem::Round(round) => round.entries.iter().map(|it| turn(round, it)).collect(),
        TranscriptItem::Summary(text) => vec![Message::user(fence.wrap("earlier turns", text))],
    };
    log.iter().flat_map(messages).collect()
}
