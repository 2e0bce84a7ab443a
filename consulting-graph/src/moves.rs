//! Moves: strategic actions that the analysts propose.

mod check;
mod draft;
mod id;
mod markdown;
mod numbered;

use crate::lenient_json;

pub use check::{MoveViolation, similarity, violations};
pub use draft::{MoveDraft, MovesDraft, Risk, Step};
pub use id::{MoveId, MoveIdError};
pub use markdown::parse;
pub use numbered::{Author, MissingMove, Move, assign_ids};

/// Reads an analyst's answer: JSON with the requested schema, a bare JSON list of moves, or Markdown. Drops moves
/// that have neither a title nor a thesis. Never fails; [`violations`] reports what is missing.
pub fn read(answer: &str) -> Vec<MoveDraft> {
    let object =
        lenient_json::find(answer, |it: &MovesDraft| !it.moves.is_empty()).map(|it| it.moves);
    let list = || lenient_json::find(answer, |it: &Vec<MoveDraft>| !it.is_empty());
    let mut moves = object.or_else(list).unwrap_or_else(|| parse(answer));
    moves.retain(|it| !(it.title.trim().is_empty() && it.thesis.trim().is_empty()));
    moves
}
