//! Watching debates: what goes wrong in them, found without a further call.
//!
//! Nothing here changes a score. Each rule is a plain count of words, so that its verdict can be checked by hand.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{
    finding::cited,
    moves::MoveId,
    quantity::claims,
    score::{MoveScore, ScoreSource},
    transcript::{ConversationEntry, Speaker},
};

/// A turn repeats an earlier one when more than this part of its three-word sequences stood there.
const REPEATED: f64 = 0.5;
/// A turn brings nothing new when less than this part of its words is new.
const NEW: f64 = 0.15;

/// Something that went wrong in a debate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// The move.
    pub move_id: MoveId,
    /// The log, like `i1`.
    pub log: String,
    /// The round.
    pub round: u32,
    /// Whose turn it was.
    pub role: Speaker,
    /// What happened.
    pub kind: ObservationKind,
}

/// What can go wrong in a debate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObservationKind {
    /// A party gave in although the other had brought neither a new number nor a new citation.
    Capitulation,
    /// For two turns nobody said anything new.
    DisagreementCollapse,
    /// A party said what it had said before.
    Repetition,
}

/// Everything that is to be seen in one log.
pub fn observe(move_id: MoveId, log: &str, entries: &[ConversationEntry]) -> Vec<Observation> {
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
        if gives_in(entry, before) {
            note(ObservationKind::Capitulation);
        }
        let new = words.iter().filter(|it| !known.contains(*it)).count();
        stale =
            if (new as f64) < NEW * words.len() as f64 || words.is_empty() { stale + 1 } else { 0 };
        // Told once, when it begins.
        if stale == 2 {
            note(ObservationKind::DisagreementCollapse);
        }
        known.extend(words);
    }
    found
}

/// Whether a sentence gives a point to the other side.
fn concedes(sentence: &str) -> bool {
    const PHRASES: &[&str] = &[
        "i concede",
        "i withdraw",
        "i drop",
        "i give up",
        "i no longer",
        "i accept your",
        "i stand corrected",
        "you are right",
        "you're right",
    ];
    let lower = sentence.to_lowercase();
    PHRASES.iter().any(|it| lower.contains(it))
}

/// Words of over three letters, in small letters.
fn words(text: &str) -> BTreeSet<String> {
    let lower = text.to_lowercase();
    lower
        .split(|it: char| !it.is_alphanumeric())
        .filter(|it| it.chars().count() > 3)
        .map(str::to_owned)
        .collect()
}

fn repeats(entry: &ConversationEntry, before: &[ConversationEntry]) -> bool {
    let now = triples(&entry.content);
    let said = |earlier: &ConversationEntry| {
        let shared = triples(&earlier.content).intersection(&now).count();
        shared as f64 > REPEATED * now.len() as f64
    };
    !now.is_empty() && before.iter().filter(|it| it.role == entry.role).any(said)
}

fn triples(text: &str) -> BTreeSet<[String; 3]> {
    let lower = text.to_lowercase();
    let words: Vec<&str> =
        lower.split(|it: char| !it.is_alphanumeric()).filter(|it| !it.is_empty()).collect();
    words
        .windows(3)
        .filter_map(|it| <[&str; 3]>::try_from(it).ok())
        .map(|it| it.map(str::to_owned))
        .collect()
}

fn gives_in(entry: &ConversationEntry, before: &[ConversationEntry]) -> bool {
    if !concedes(&entry.content) {
        return false;
    }
    let Some((last, earlier)) =
        before.iter().rposition(|it| it.role != entry.role).map(|at| (&before[at], &before[..at]))
    else {
        return false;
    };
    let facts = |it: &ConversationEntry| -> BTreeSet<String> {
        let ids =
            cited(&it.content).into_iter().filter_map(|(_, id)| id.ok()).map(|it| it.to_string());
        let numbers =
            claims(&it.content).into_iter().map(|it| format!("{:?} {}", it.unit, it.value));
        ids.chain(numbers).collect()
    };
    let known: BTreeSet<String> = earlier.iter().flat_map(facts).collect();
    facts(last).is_subset(&known)
}

/// How far scores grow with the length of the debate: Pearson's correlation over the moves, from -1 to 1. None for
/// fewer than three moves, or when all are alike.
pub fn length_bias(moves: &[(MoveScore, usize)]) -> Option<f64> {
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

/// How close together the scores are.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Compression {
    /// Which part of all given scores is a 7 or an 8.
    pub sevens_and_eights: f64,
    /// How far the best total is from the worst.
    pub spread: u32,
    /// Whether chance alone could explain that: then the ranking is not resolved.
    pub unresolved: bool,
}

/// Says how close together the scores are; `noise` is what chance adds to a total, from
/// [`severity`](crate::rank::severity). None without scores.
pub fn compression(scores: &[MoveScore], noise: f64) -> Option<Compression> {
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
        unresolved: f64::from(spread) < 2.0 * noise,
    })
}
