//! Prompts, as pure functions of what they are about.
//!
//! Providers charge a tenth for what a prompt has in common with an earlier one, from its start on. So nothing that
//! changes stands before what does not: first who speaks, then the move and its evidence, then the debate so far, which
//! only grows, and last one short message with the round and what to do. Everything that a model or a user wrote is
//! fenced.

mod debate;
mod layers;
mod samples;
mod scoring;

use llm::{Message, Request};
use serde::{Deserialize, Serialize};

use crate::{
    config::Persona,
    fence::Fence,
    finding::{Findings, excerpts},
    moves::Move,
};

pub use debate::{critic_opening, critic_reply, maker_reply};
pub use layers::{Piece, analyst, analyst_again, inference, inference_again, synthesizer};
pub(crate) use samples::samples;
pub use scoring::{baseline, repair, score};

/// What a debate is about; the same in all its prompts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Brief {
    /// The company.
    pub ticker: String,
    /// The move's number.
    pub move_id: String,
    /// The move.
    pub document: String,
    /// The findings it cites.
    pub evidence: String,
}

impl Brief {
    /// Puts a move and the findings it cites together.
    pub fn new(the_move: &Move, findings: &[Findings]) -> Self {
        Self {
            ticker: the_move.ticker.to_string(),
            move_id: the_move.move_id.to_string(),
            document: the_move.markdown(),
            evidence: excerpts(findings, &the_move.draft.cited()),
        }
    }

    /// Both, fenced.
    fn material(&self, fence: &Fence) -> String {
        let document = fence.around(&format!("move {}", self.move_id), &self.document);
        if self.evidence.is_empty() {
            return format!("{document}\n\nIt cites no finding that exists.");
        }
        let evidence = fence.around("findings", &self.evidence);
        format!("{document}\n\nThe findings it cites:\n\n{evidence}")
    }
}

fn asking(persona: &Persona, fence: &Fence, messages: Vec<Message>) -> Request {
    let system = format!("{}\n\n{}", persona.system_prompt.trim(), fence.rule());
    Request::conversation(messages).system(system)
}

/// Marks the last message as one up to which the prompt will come again.
fn keep(messages: &mut [Message]) {
    if let Some(last) = messages.last_mut() {
        last.cache = true;
    }
}
