//! Observations in debates.

use proptest::prelude::*;

use super::rank::scored;
use crate::{
    moves::MoveId,
    transcript::{ConversationEntry, Speaker},
    watch::{ObservationKind, compression, length_bias, observe},
};

fn log(turns: &[&str]) -> Vec<ConversationEntry> {
    let turn = |(idx, text): (u32, &&str)| {
        let role = if idx.is_multiple_of(2) {
            Speaker::Critic
        } else {
            Speaker::DecisionMaker("D1".to_owned())
        };
        ConversationEntry { role, content: (*text).to_owned(), round: idx / 2 + 1 }
    };
    (0..).zip(turns).map(turn).collect()
}

#[track_caller]
fn check(turns: &[&str], expected: &[(u32, ObservationKind)]) {
    let found = observe(MoveId(1), "i1", &log(turns));
    let found: Vec<_> = found.iter().map(|it| (it.round, it.kind)).collect();
    assert_eq!(found, expected);
}

#[test]
fn capitulation_without_a_new_argument_is_reported() {
    let opening = "Margins are thin and rivals cut prices.";
    check(
        &[opening, "You are right, I concede the timing."],
        &[(1, ObservationKind::Capitulation)],
    );
    check(
        &["Margins fell to 41.3% [F1-02] within months.", "You are right, I concede the timing."],
        &[],
    );
    // Repeating a number is not a new argument.
    check(
        &[
            "Margins fell to 41.3% lately.",
            "Scale brings them back quickly.",
            "Still, 41.3% remains rather little money.",
            "You are right, dropping this entirely seems wise.",
        ],
        &[(2, ObservationKind::Capitulation)],
    );
}

#[test]
fn repetition_is_reported() {
    let turn = "Customers stay because switching costs them a year of work.";
    check(
        &[
            "Why would customers stay with such prices?",
            turn,
            "Competitors promise migration within weeks, supported by consultants.",
            turn,
        ],
        &[(2, ObservationKind::Repetition)],
    );
}

#[test]
fn disagreement_collapse_is_reported_once() {
    check(
        &[
            "alpha bravo charlie delta", "echoes foxtrot golfing hotels", "alpha golfing",
            "bravo hotels", "delta foxtrot",
        ],
        &[(2, ObservationKind::DisagreementCollapse)],
    );
}

#[test]
fn length_bias_is_the_correlation_of_length_and_score() {
    let with = |lengths: [usize; 3]| {
        let moves: Vec<_> = (1..)
            .zip(lengths)
            .map(|(id, length)| (scored(id, [(id as u8, 0); 3]), length))
            .collect();
        length_bias(&moves)
    };
    assert!(with([10, 20, 30]).unwrap() > 0.999);
    assert!(with([30, 20, 10]).unwrap() < -0.999);
    assert_eq!(with([10, 10, 10]), None);
}

#[test]
fn scores_within_the_noise_are_unresolved() {
    let scores = [scored(1, [(7, 0); 3]), scored(2, [(7, 1); 3])];
    let found = compression(&scores, 2.0).unwrap();
    assert_eq!((found.sevens_and_eights, found.spread, found.unresolved), (1.0, 3, true));
    assert!(!compression(&scores, 1.0).unwrap().unresolved);
    assert_eq!(compression(&[], 1.0), None);
}

proptest! {
    #[test]
    fn observing_never_panics(turns in prop::collection::vec("(?s).{0,60}", 0..8)) {
        let turns: Vec<&str> = turns.iter().map(String::as_str).collect();
        observe(MoveId(1), "i1", &log(&turns));
    }
}
