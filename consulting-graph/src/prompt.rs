//! Prompts, as pure functions of what they are about.
//!
//! Providers charge a tenth for what a prompt has in common with an earlier one, from its start on. So nothing that
//! changes stands before what does not: first who speaks, then the move and its evidence, then the debate so far, which
//! only grows, and last one short message with the round and what to do. Everything that a model or a user wrote is
//! fenced.

mod debate;
mod layers;
mod scoring;

use serde::{Deserialize, Serialize};

use crate::{
    config::Persona,
    data::Ticker,
    fence::Fence,
    finding::{Findings, excerpts},
    moves::Move,
};

pub use debate::{critic_opening, critic_reply, maker_reply};
pub use layers::{analyst, analyst_again, inference, synthesizer};
pub use scoring::{baseline, repair, score};

/// What a model is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prompt {
    /// Who it is, and the rules.
    pub system: String,
    /// The conversation so far, and last what to do.
    pub messages: Vec<Message>,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Whose it is.
    pub role: Role,
    /// What it says.
    pub text: String,
    /// Whether a provider should keep the prompt up to here for the next call.
    pub cache: bool,
}

/// Whose a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Somebody else's.
    User,
    /// The model's own.
    Assistant,
}

/// What a debate is about; the same in all its prompts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Brief {
    ticker: Ticker,
    /// The move and the findings it cites, fenced.
    material: String,
    fence: Fence,
}

impl Brief {
    /// Puts a move and the findings it cites together.
    pub fn new(the_move: &Move, findings: &[Findings], fence: &Fence) -> Self {
        let document = fence.around(&format!("move {}", the_move.move_id), &the_move.markdown());
        let evidence = excerpts(findings, &the_move.draft.cited());
        let evidence = if evidence.is_empty() {
            "It cites no finding that exists.".to_owned()
        } else {
            format!("The findings it cites:\n\n{}", fence.around("findings", &evidence))
        };
        let ticker = the_move.ticker.clone();
        Self { ticker, material: format!("{document}\n\n{evidence}"), fence: fence.clone() }
    }
}

fn system(persona: &Persona, fence: &Fence) -> String {
    format!("{}\n\n{}", persona.system_prompt.trim(), fence.rule())
}

fn user(text: String) -> Message {
    Message { role: Role::User, text, cache: false }
}

fn assistant(text: &str) -> Message {
    Message { role: Role::Assistant, text: text.to_owned(), cache: false }
}

/// Marks the last message as one up to which the prompt will come again.
fn keep(messages: &mut [Message]) {
    if let Some(last) = messages.last_mut() {
        last.cache = true;
    }
}
