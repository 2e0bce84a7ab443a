//! Input of the node that runs a debate.

use serde::{Deserialize, Serialize};

use super::isolation::IsolationRecord;
use crate::{debate::SandboxState, finding::Findings, moves::Move, prompt::Brief};

/// A debate to run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct DebateRequest {
    pub(crate) the_move: Move,
    /// The findings that the move cites.
    pub(crate) findings: Vec<Findings>,
    /// State of the debate in an earlier execution, from which it continues if the state is valid. `None` if it starts
    /// from the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) earlier: Option<SandboxState>,
    /// Record of where the debate ran in an earlier execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) isolation: Option<IsolationRecord>,
}

impl DebateRequest {
    /// Creates a request for the debate about a move. An earlier debate is continued only if it was about the same
    /// version of the move and has no failures.
    pub(crate) fn new(
        the_move: Move,
        findings: &[Findings],
        earlier: &[SandboxState],
        isolation: &[IsolationRecord],
    ) -> Self {
        let brief = Brief::new(&the_move, findings);
        let is_same = |it: &&SandboxState| it.brief == brief && it.failures.is_empty();
        let cited = the_move.draft.cited_findings();
        let excerpt = |it: &Findings| Findings {
            findings: it.findings.iter().filter(|it| cited.contains(&it.id)).cloned().collect(),
            tensions: Vec::new(),
            ..it.clone()
        };
        Self {
            findings: findings.iter().map(excerpt).collect(),
            earlier: earlier.iter().find(is_same).cloned(),
            isolation: isolation.iter().find(|it| it.move_id == the_move.move_id).cloned(),
            the_move,
        }
    }
}
