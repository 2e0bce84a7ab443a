//! Prompts for scoring.

use app_support::plural::counted;
use llm::{Message, Request, overflow::TranscriptItem};

use super::{brief::Brief, debate::maker_conversation, request::request_for};
use crate::{
    config::{Metric, Persona},
    fence::Fence,
    score::SCORE_RANGE,
};

/// Builds the request to a decision maker for scores after the debate. `rounds` is the number of completed rounds, and
/// `log` is the complete conversation.
pub(crate) fn score(
    maker: &Persona,
    brief: &Brief,
    fence: &Fence,
    log: &[TranscriptItem<'_>],
    metrics: &[Metric],
    rounds: u32,
) -> Request {
    let mut messages = maker_conversation(maker, brief, fence, log);
    let completed = counted(rounds, "round", "rounds");
    messages.push(Message::user(format!(
        "You have completed {completed} of negotiation about this move. Now score it. Be OBJECTIVE: reflect what you \
         genuinely believe after the full debate, not your initial position. Where the critic raised valid \
         concerns that you could not fully address, lower your scores accordingly.\n\n{}",
        answer_format(metrics)
    )));
    request_for(maker, fence, messages)
}

/// Builds the request to a decision maker for scores before the debate. Comparing these scores with the scores after
/// the debate shows the effect of the debate.
pub(crate) fn baseline(
    maker: &Persona,
    brief: &Brief,
    fence: &Fence,
    metrics: &[Metric],
) -> Request {
    let mut messages = maker_conversation(maker, brief, fence, &[]);
    messages.push(Message::user(format!(
        "The debate about this move has not begun. Score it as you see it now. Be OBJECTIVE: reflect what you genuinely \
         believe.\n\n{}",
        answer_format(metrics)
    )));
    request_for(maker, fence, messages)
}

/// Builds the second request for scores, after an answer that could not be read.
pub(crate) fn repair(first: &Request, answer: &str, metrics: &[Metric]) -> Request {
    first.clone().message(Message::assistant(answer)).message(Message::user(format!(
        "Your scores could not be read. Return only the JSON.\n\n{}",
        answer_format(metrics)
    )))
}

fn answer_format(metrics: &[Metric]) -> String {
    let (low, high) = (SCORE_RANGE.start(), SCORE_RANGE.end());
    let listed: String = (1..)
        .zip(metrics)
        .map(|(number, it)| format!("{number}. {} ({low}-{high}): {}\n", it.name, it.question))
        .collect();
    let fields: String = metrics.iter().map(|it| format!("  \"{}\": <int>,\n", it.id)).collect();
    format!(
        "Metrics:\n{listed}\nAnswer ONLY with valid JSON in exactly this form:\n{{\n{fields}  \"reasoning\": \"<1-2 \
         sentences of justification>\"\n}}"
    )
}
