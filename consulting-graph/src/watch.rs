//! Detects defects of debates from their transcripts, without model calls.
//!
//! Observations do not change scores. The rules only count and compare words, numbers and citations, so that anyone can
//! verify their results manually.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{
    finding::find_citations,
    moves::MoveId,
    quantity::claims,
    score::{MoveScore, ScoreSource},
    transcript::{ConversationEntry, Speaker},
};

/// A turn is a repetition if more than this fraction of its three-word sequences occurs in one earlier turn.
const REPEATED_FRACTION: f64 = 0.5;
/// A turn adds nothing new if less than this fraction of its words is new.
const MIN_NEW_FRACTION: f64 = 0.15;

/// A defect of a debate, found in one turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    pub move_id: MoveId,
    /// Name of the debate log, such as `i1`.
    pub log: String,
    /// Number of the round that contains the turn, starting at 1.
    pub round: u32,
    pub role: Speaker,
    pub kind: ObservationKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObservationKind {
    /// A speaker conceded a point although the other side's last turn had no new number and no new citation.
    Capitulation,
    /// Two consecutive turns added nothing new.
    DisagreementCollapse,
    /// A speaker repeated an earlier turn.
    Repetition,
}

/// Returns all observations about one debate log.
pub(crate) fn observe(
    move_id: MoveId,
    log: &str,
    entries: &[ConversationEntry],
) -> Vec<Observation> {
    let mut found = Vec::new();
    let mut known: BTreeSet<String> = BTreeSet::new();
    let mut stale = 0;
    for (idx, entry) in entries.iter().enumerate() {
        let (before, words) = (&entries[..idx], words(&entry.content));
        let mut note = |kind| {
            let (log, role) = (log.to_owned(), entry.role.clone());
            found.push(Observation { move_id, log, round: entry.round, role, kind });
        };
        if repeats(entry, before) {
            note(ObservationKind::Repetition);
        }
        if capitulates(entry, before) {
            note(ObservationKind::Capitulation);
        }
        let new = words.iter().filter(|it| !known.contains(*it)).count();
        stale = if (new as f64) < MIN_NEW_FRACTION * words.len() as f64 || words.is_empty() {
            stale + 1
        } else {
            0
        };
        // Reported only once per sequence of turns that add nothing new.
        if stale == 2 {
            note(ObservationKind::DisagreementCollapse);
        }
        known.extend(words);
    }
    found
}

/// Returns whether a text concedes a point to the other side.
fn concedes(sentence: &str) -> bool {
    const PHRASES: &[&str] = &[
        "i concede", "i withdraw", "i drop", "i give up", "i no longer", "i accept your",
        "i stand corrected", "you are right", "you're right",
    ];
    let lower = sentence.to_lowercase();
    PHRASES.iter().any(|it| lower.contains(it))
}

/// Returns the words with more than three letters, in lower case.
pub(crate) fn words(text: &str) -> BTreeSet<String> {
    let lower = text.to_lowercase();
    lower
        .split(|it: char| !it.is_alphanumeric())
        .filter(|it| it.chars().count() > 3)
        .map(str::to_owned)
        .collect()
}

fn repeats(entry: &ConversationEntry, before: &[ConversationEntry]) -> bool {
    let now = word_triples(&entry.content);
    let repeats_entry = |earlier: &ConversationEntry| {
        let shared = word_triples(&earlier.content).intersection(&now).count();
        shared as f64 > REPEATED_FRACTION * now.len() as f64
    };
    !now.is_empty() && before.iter().filter(|it| it.role == entry.role).any(repeats_entry)
}

fn word_triples(text: &str) -> BTreeSet<[String; 3]> {
    let lower = text.to_lowercase();
    let words: Vec<&str> =
        lower.split(|it: char| !it.is_alphanumeric()).filter(|it| !it.is_empty()).collect();
    words
        .windows(3)
        .filter_map(|it| <[&str; 3]>::try_from(it).ok())
        .map(|it| it.map(str::to_owned))
        .collect()
}

fn capitulates(entry: &ConversationEntry, before: &[ConversationEntry]) -> bool {
    if !concedes(&entry.content) {
        return false;
    }
    let Some((last, earlier)) =
        before.iter().rposition(|it| it.role != entry.role).map(|at| (&before[at], &before[..at]))
    else {
        return false;
    };
    let facts = |it: &ConversationEntry| -> BTreeSet<String> {
        let ids = find_citations(&it.content)
            .into_iter()
            .filter_map(|(_, id)| id.ok())
            .map(|it| it.to_string());
        let numbers =
            claims(&it.content).into_iter().map(|it| format!("{:?} {}", it.unit, it.value));
        ids.chain(numbers).collect()
    };
    let known: BTreeSet<String> = earlier.iter().flat_map(facts).collect();
    facts(last).is_subset(&known)
}

/// Returns Pearson's correlation between the total score of a move and the length of its debate, from -1 to 1. Returns
/// `None` if there are fewer than three moves, or if all scores or all lengths are equal.
pub(crate) fn length_bias(moves: &[(MoveScore, usize)]) -> Option<f64> {
    if moves.len() < 3 {
        return None;
    }
    let pairs: Vec<(f64, f64)> =
        moves.iter().map(|(it, length)| (f64::from(it.total_score), *length as f64)).collect();
    let n = pairs.len() as f64;
    let (mean_a, mean_b) = (
        pairs.iter().map(|it| it.0).sum::<f64>() / n,
        pairs.iter().map(|it| it.1).sum::<f64>() / n,
    );
    let sum = |of: fn(f64, f64) -> f64| {
        pairs.iter().map(|(a, b)| of(a - mean_a, b - mean_b)).sum::<f64>()
    };
    let spread = (sum(|a, _| a * a) * sum(|_, b| b * b)).sqrt();
    (spread > 0.0).then(|| sum(|a, b| a * b) / spread)
}

/// How closely the scores of all moves are clustered.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Compression {
    /// Fraction of scores that are 7 or 8.
    pub sevens_and_eights: f64,
    /// Difference between the highest and the lowest total score.
    pub spread: u32,
    /// Whether the ranking is inconclusive, because noise alone could explain the spread or all scores are equal.
    pub unresolved: bool,
}

/// Measures how closely the scores are clustered. `noise` is the standard deviation of a move's total score, as
/// estimated by [`severity`](crate::rank::severity). Returns `None` if there are no scores.
pub(crate) fn compression(scores: &[MoveScore], noise: f64) -> Option<Compression> {
    let given: Vec<u8> = scores
        .iter()
        .flat_map(|it| it.scores_by_agent.values())
        .filter(|it| it.score_source != ScoreSource::Default)
        .flat_map(|it| it.metrics.values().copied())
        .collect();
    let high = scores.iter().map(|it| it.total_score).max()?;
    let low = scores.iter().map(|it| it.total_score).min()?;
    let middle = given.iter().filter(|it| (7..=8).contains(*it)).count();
    let spread = high - low;
    Some(Compression {
        sevens_and_eights: middle as f64 / given.len().max(1) as f64,
        spread,
        unresolved: spread == 0 || f64::from(spread) < 2.0 * noise,
    })
}
