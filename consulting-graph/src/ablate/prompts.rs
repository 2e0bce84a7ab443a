//! Prompts of the arms. The turns of a debate use the prompts of the pipeline.

use llm::{Message, Request, Schema};

use super::{flaw::FlawKind, verdict::VerdictDraft};
use crate::{
    config::Persona,
    fence::Fence,
    prompt::{self, Brief},
    score::SCORE_RANGE,
    transcript::{ConversationEntry, rounds, whole},
};

/// Text that a decision maker reads before the verdict.
#[derive(Debug, Clone, Copy)]
pub(super) enum Reading<'a> {
    /// Nothing but the move.
    Nothing,
    /// A critique of the move.
    Critique(&'a str),
    /// The decision maker's own debate with the critic.
    Debate(&'a [ConversationEntry]),
}

/// Builds the request to the decision maker for a verdict. The task is the same in all arms.
pub(super) fn verdict(
    maker: &Persona,
    brief: &Brief,
    fence: &Fence,
    reading: Reading<'_>,
) -> Request {
    let messages = match reading {
        Reading::Nothing => prompt::maker_conversation(maker, brief, fence, &[]),
        Reading::Critique(text) => {
            let mut messages = prompt::maker_conversation(maker, brief, fence, &[]);
            messages.push(Message::user(format!(
                "This critique of the move was written independently of you.\n\n{}",
                fence.wrap("critique", text)
            )));
            messages
        }
        Reading::Debate(log) => {
            prompt::maker_conversation(maker, brief, fence, &whole(&rounds(log)))
        }
    };
    let task = Message::user(format!(
        "Now judge the move. Be OBJECTIVE: reflect what you genuinely believe, not a position you took.\n\n{}",
        answer_format()
    ));
    let request = prompt::request_for(maker, fence, messages).message(task);
    request.schema(Schema::of::<VerdictDraft>())
}

/// Builds the second request for a verdict, after an answer that could not be read.
pub(super) fn verdict_again(first: &Request, answer: &str) -> Request {
    first.clone().message(Message::assistant(answer)).message(Message::user(format!(
        "Your verdict could not be read. Return only the JSON.\n\n{}",
        answer_format()
    )))
}

/// Builds the request to the decision maker for a critique of the move, in a separate conversation.
pub(super) fn self_critique(maker: &Persona, brief: &Brief, fence: &Fence) -> Request {
    let task = Message::user(
        "Before you take a position, look for weaknesses of this move: challenge the reasoning, question the evidence, \
         and name the risks.",
    );
    let messages = prompt::maker_conversation(maker, brief, fence, &[]);
    prompt::request_for(maker, fence, messages).message(task)
}

fn answer_format() -> String {
    let (low, high) = (SCORE_RANGE.start(), SCORE_RANGE.end());
    let kinds: Vec<&str> = FlawKind::ALL.map(FlawKind::name).to_vec();
    format!(
        "Either the move is sound, or it contains exactly one error of one of these kinds:\n\
         - wrong_figure: a number contradicts the finding that is cited for it\n\
         - wrong_citation: a statement cites a finding that is about something else\n\
         - infeasible_step: a step cannot be completed in the stated time\n\
         - hidden_cost: a cost that the steps mention is missing from the stated cost\n\n\
         Answer ONLY with valid JSON in exactly this form:\n\
         {{\n  \"reason\": \"<1-2 sentences>\",\n  \"flawed\": <true or false>,\n  \"kind\": \"<{}, or none>\",\n  \
         \"score\": <quality of the move, {low}-{high}>\n}}",
        kinds.join(", ")
    )
}
