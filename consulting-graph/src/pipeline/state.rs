//! State of the pipeline.

use std::collections::BTreeMap;

use graph_core::State;
use serde::{Deserialize, Serialize};

use crate::{
    call::{CallUsage, Failure},
    data::Company,
    debate::SandboxState,
    debate_host::IsolationRecord,
    event::PipelineEvent,
    finding::{Findings, Inference},
    moves::{MissingMove, Move, MoveId},
    rank::{Ranked, Unscored},
    report::Isolation,
    score::MoveScore,
    transcript::ConversationEntry,
};

/// State of the pipeline.
///
/// Lists with one entry per move are keyed by move number and upserted, so a node that runs again after a crash does
/// not duplicate entries.
#[derive(State, Clone, Debug, Default)]
pub struct PipelineState {
    pub company_ticker: String,
    /// Company data, each number with its origin.
    pub company: Option<Company>,
    /// Document about the finances of the company, computed from the data in layer 0.
    pub financial_data_raw: String,
    /// Document about news and sentiment, computed from the data in layer 0.
    pub news_data_raw: String,
    /// The documents as narrated by the synthesizers, by file name. A narration that failed or was omitted is absent.
    pub narrations: BTreeMap<String, String>,
    /// F1, the findings from the financial document, as Markdown.
    pub f1_financial_inference: String,
    /// F2, the findings from the document about news and sentiment, as Markdown.
    pub f2_trend_inference: String,
    /// Findings F1 and F2 in structured form.
    #[reduce(upsert(inference: Inference))]
    pub findings: Vec<Findings>,
    #[reduce(upsert(move_id: MoveId))]
    pub move_suggestions: Vec<Move>,
    /// Moves that an analyst was asked for but did not deliver.
    #[reduce(upsert(move_id: MoveId))]
    pub missing_moves: Vec<MissingMove>,
    #[reduce(upsert(move_id: MoveId))]
    pub policy_scores: Vec<MoveScore>,
    /// Scores before the debates. Empty unless baseline scoring is enabled.
    #[reduce(upsert(move_id: MoveId))]
    pub baseline_scores: Vec<MoveScore>,
    /// Moves without a score.
    #[reduce(upsert(move_id: MoveId))]
    pub unscored_moves: Vec<Unscored>,
    /// States of debates in an earlier execution or in the origin of a fork, from which the debates continue.
    pub earlier_debates: Vec<SandboxState>,
    /// Transcripts of the debates.
    #[reduce(upsert(move_id: MoveId))]
    pub conversation_logs: Vec<MoveLogs>,
    /// Sandbox back end and isolation of each debate.
    #[reduce(upsert(move_id: MoveId))]
    pub held_in: Vec<IsolationRecord>,
    /// Names of all back ends that the debates used, the weakest isolation of a debate, and whether the memory of a
    /// debate was not bounded. Shown in the report.
    pub isolation: Option<Isolation>,
    /// Recommended moves, best first.
    pub recommended_moves: Vec<Ranked>,
    pub other_moves: Vec<Ranked>,
    /// Tokens and cost of every call.
    #[reduce(append)]
    pub calls: Vec<CallUsage>,
    /// Calls and debates that failed.
    #[reduce(append)]
    pub failures: Vec<Failure>,
    /// Warnings for the reader of the report.
    #[reduce(append)]
    pub warnings: Vec<String>,
    /// Events that the nodes sent.
    #[reduce(append)]
    pub status_updates: Vec<PipelineEvent>,
}

/// Transcripts of the debate about one move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveLogs {
    pub move_id: MoveId,
    /// Transcripts by log name (`i1`, `i2`, …), one per decision maker.
    pub logs: BTreeMap<String, Vec<ConversationEntry>>,
}

impl PipelineState {
    /// Returns the moves sorted by number. The state lists them in the order in which the analysts finished.
    pub fn moves(&self) -> Vec<Move> {
        let mut moves = self.move_suggestions.clone();
        moves.sort_by_key(|it| it.move_id);
        moves
    }
}
