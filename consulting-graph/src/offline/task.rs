//! Tasks: typed descriptions of model calls. The offline board answers a call from its task, not from its prompt.

use std::sync::Arc;

use crate::{
    config::{Metric, Persona},
    data::{Company, Subject},
    finding::{Finding, Findings, Inference},
    moves::{Move, MoveDraft, MoveId},
};

/// A model call as typed data. The pipeline attaches a task to each request. The prompt of the request describes the
/// same task in words. Only the offline board reads the attached task.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    /// Agent that makes the call.
    pub agent: Persona,
    /// Work that the agent is asked to do.
    pub work: Work,
}

impl Task {
    /// Returns the move that the task is about, if it is part of a debate.
    pub(crate) fn move_id(&self) -> Option<MoveId> {
        match &self.work {
            Work::CriticTurn { debated, .. }
            | Work::MakerTurn { debated, .. }
            | Work::Summary { debated }
            | Work::Scores { debated, .. } => Some(debated.move_id),
            Work::Document { .. }
            | Work::Findings { .. }
            | Work::SingleFinding { .. }
            | Work::Moves { .. } => None,
        }
    }
}

/// Work that an agent is asked to do.
#[derive(Debug, Clone)]
pub(crate) enum Work {
    /// Write one of the two source documents.
    Document {
        /// Subject of the document.
        subject: Subject,
        /// The data that the document is based on, as Markdown.
        data: String,
    },
    /// Derive findings from a source document.
    Findings {
        /// Set that the findings belong to.
        inference: Inference,
        /// The company that the document describes.
        company: Arc<Company>,
        /// The text of the source document, or of one chunk if the document was split.
        text: String,
    },
    /// Derive one finding from a source document.
    SingleFinding {
        /// Set that the finding belongs to.
        inference: Inference,
        /// The company that the document describes.
        company: Arc<Company>,
        /// The text of the source document, or of one chunk if the document was split.
        text: String,
        /// Claims of the findings that are already known.
        known: Vec<String>,
    },
    /// Propose moves.
    Moves {
        /// The findings to base the moves on.
        findings: Vec<Findings>,
    },
    /// Attack a move.
    CriticTurn {
        debated: Arc<DebatedMove>,
        /// Id of the decision maker that the critic replies to. `None` in the opening statement, which addresses all
        /// decision makers.
        maker: Option<String>,
        /// Round of the debate, starting at 1.
        round: u32,
    },
    /// Defend a move.
    MakerTurn {
        debated: Arc<DebatedMove>,
        /// Round of the debate, starting at 1.
        round: u32,
    },
    /// Summarise earlier rounds of a debate.
    Summary { debated: Arc<DebatedMove> },
    /// Score a move.
    Scores {
        debated: Arc<DebatedMove>,
        /// Metrics to score.
        metrics: Vec<Metric>,
        /// Number of completed rounds. Zero before the debate.
        round: u32,
    },
}

/// A move under debate, with the findings that it cites.
#[derive(Debug, Clone)]
pub(crate) struct DebatedMove {
    pub move_id: MoveId,
    pub draft: MoveDraft,
    /// The findings that the move cites.
    pub evidence: Vec<Finding>,
}

impl DebatedMove {
    /// Collects the findings that a move cites.
    pub(crate) fn new(the_move: &Move, findings: &[Findings]) -> Self {
        let draft = the_move.draft.clone();
        let cited = draft.cited_findings().into_iter();
        let evidence = cited.filter_map(|id| findings.iter().find_map(|it| it.get(id)).cloned());
        Self { move_id: the_move.move_id, evidence: evidence.collect(), draft }
    }
}
