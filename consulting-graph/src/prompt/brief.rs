//! The part that all prompts of a debate share.

use serde::{Deserialize, Serialize};

use crate::{
    fence::Fence,
    finding::{Findings, excerpts},
    moves::Move,
};

/// Subject of a debate. All prompts of the debate contain the same brief.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Brief {
    pub ticker: String,
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
    pub(super) fn material(&self, fence: &Fence) -> String {
        let document = fence.wrap(&format!("move {}", self.move_id), &self.document);
        if self.evidence.is_empty() {
            return format!("{document}\n\nIt cites no existing finding.");
        }
        let evidence = fence.wrap("findings", &self.evidence);
        format!("{document}\n\nThe findings it cites:\n\n{evidence}")
    }
}
