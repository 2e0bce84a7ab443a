//! Builds prompts. Each function is pure: the prompt depends only on the arguments.
//!
//! Providers charge about a tenth of the normal price for the prefix that a prompt shares with an earlier prompt. The
//! parts of a prompt are therefore ordered from the least to the most variable: the persona, the move with its
//! evidence, the debate so far (which only grows), and finally a short message with the round and the task. All text
//! written by models or users is fenced.

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
pub use layers::{Chunk, analyst, analyst_retry, inference, inference_retry, synthesizer};
pub(crate) use samples::samples;
pub use scoring::{baseline, repair, score};

/// Subject of a debate. All prompts of the debate contain the same brief.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Brief {
    /// The company's ticker.
    pub ticker: String,
    /// The move's id.
    pub move_id: String,
    /// The move as Markdown.
    pub document: String,
    /// The findings that the move cites, as Markdown.
    pub evidence: String,
}

impl Brief {
    /// Creates the brief for a move, with the findings that the move cites.
    pub fn new(the_move: &Move, findings: &[Findings]) -> Self {
        Self {
            ticker: the_move.ticker.to_string(),
            move_id: the_move.move_id.to_string(),
            document: the_move.markdown(),
            evidence: excerpts(findings, &the_move.draft.cited_findings()),
        }
    }

    /// Returns the part of a prompt that contains the move and its evidence, fenced.
    fn material(&self, fence: &Fence) -> String {
        let document = fence.wrap(&format!("move {}", self.move_id), &self.document);
        if self.evidence.is_empty() {
            return format!("{document}\n\nIt cites no existing finding.");
        }
        let evidence = fence.wrap("findings", &self.evidence);
        format!("{document}\n\nThe findings it cites:\n\n{evidence}")
    }
}

fn request_for(persona: &Persona, fence: &Fence, messages: Vec<Message>) -> Request {
    let system = format!("{}\n\n{}", persona.system_prompt.trim(), fence.instruction());
    Request::conversation(messages).system(system)
}

/// Marks the prompt up to the last message as cacheable, because later prompts start with the same messages.
fn mark_cacheable(messages: &mut [Message]) {
    if let Some(last) = messages.last_mut() {
        last.cache = true;
    }
}
