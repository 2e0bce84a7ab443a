//! The state of a run.

use std::collections::BTreeMap;

use graph_core::State;
use serde::{Deserialize, Serialize};

use crate::{
    ask::Paid,
    data::Company,
    debates::HeldIn,
    event::PipelineEvent,
    finding::{Findings, Inference},
    moves::{MissingMove, Move, MoveId},
    rank::{Ranked, Unscored},
    report::Isolation,
    score::MoveScore,
    transcript::ConversationEntry,
};

/// The state of a run.
///
/// Lists are upserted by the move's number and not appended to, so a node that runs again after a crash doubles nothing.
#[derive(State, Clone, Debug, Default)]
pub struct PipelineState {
    /// What was asked for.
    pub company_ticker: String,
    /// What is known of the company, each number with its origin.
    pub company: Option<Company>,
    /// The financial document.
    pub financial_data_raw: String,
    /// The document on news and sentiment.
    pub news_data_raw: String,
    /// F1 in markdown.
    pub f1_financial_inference: String,
    /// F2 in markdown.
    pub f2_trend_inference: String,
    /// F1 and F2 as data.
    #[reduce(upsert(inference: Inference))]
    pub findings: Vec<Findings>,
    /// The moves.
    #[reduce(upsert(move_id: MoveId))]
    pub move_suggestions: Vec<Move>,
    /// Moves that analysts owed.
    #[reduce(upsert(move_id: MoveId))]
    pub missing_moves: Vec<MissingMove>,
    /// The scores after the debates.
    #[reduce(upsert(move_id: MoveId))]
    pub policy_scores: Vec<MoveScore>,
    /// The scores before the debates, where they were asked for.
    #[reduce(upsert(move_id: MoveId))]
    pub baseline_scores: Vec<MoveScore>,
    /// Moves that have no score.
    #[reduce(upsert(move_id: MoveId))]
    pub unscored_moves: Vec<Unscored>,
    /// The debates.
    #[reduce(upsert(move_id: MoveId))]
    pub conversation_logs: Vec<MoveLogs>,
    /// Where each debate was held.
    #[reduce(upsert(move_id: MoveId))]
    pub held_in: Vec<HeldIn>,
    /// Where they were held, all together.
    pub isolation: Option<Isolation>,
    /// The best moves.
    pub recommended_moves: Vec<Ranked>,
    /// The others.
    pub other_moves: Vec<Ranked>,
    /// What was paid.
    #[reduce(append)]
    pub calls: Vec<Paid>,
    /// What did not go as it should, for people.
    #[reduce(append)]
    pub warnings: Vec<String>,
    /// What happened.
    #[reduce(append)]
    pub status_updates: Vec<PipelineEvent>,
}

/// The debates about one move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveLogs {
    /// The move.
    pub move_id: MoveId,
    /// Its logs, by name.
    pub logs: BTreeMap<String, Vec<ConversationEntry>>,
}

impl PipelineState {
    /// Findings and moves come in the order in which they were ready; this is the order of their numbers.
    pub fn moves(&self) -> Vec<Move> {
        let mut moves = self.move_suggestions.clone();
        moves.sort_by_key(|it| it.move_id);
        moves
    }
}
