//! Summarises rounds without a model. A summary contains each speaker's first sentence, concessions and citations.

use super::round::Round;
use crate::excerpt::truncate;

/// Maximum number of characters to keep of a sentence. Some texts have no full stop.
const MAX_SENTENCE: usize = 300;

/// Phrases that indicate a concession.
const CONCEDING: [&str; 12] = [
    "concede", "conceding", "i grant", "i accept", "i acknowledge", "i agree", "you are right",
    "you're right", "is right that", "fair point", "valid point", "valid concern",
];

/// Returns a summary of the rounds, with a heading. It is empty if there are no rounds.
pub(crate) fn summarise(rounds: &[Round]) -> String {
    let entries = rounds.iter().flat_map(|round| {
        round
            .entries
            .iter()
            .map(|it| format!("Round {}, {}: {}", round.number, it.speaker, shorten(&it.text)))
    });
    add_summary_heading(rounds, &entries.collect::<Vec<_>>().join("\n"))
}

/// Adds a heading to a summary, such as `[Rounds 2–6 summarised]`, that states which rounds it covers. Returns an empty
/// text if there are no rounds.
pub fn add_summary_heading(rounds: &[Round], summary: &str) -> String {
    match rounds {
        [] => String::new(),
        [round] => format!("[Round {} summarised]\n{summary}", round.number),
        [first, .., last] => {
            format!("[Rounds {}–{} summarised]\n{summary}", first.number, last.number)
        }
    }
}

fn shorten(text: &str) -> String {
    let mut sentences = sentences(text);
    let first = sentences.next().map(truncate_sentence).unwrap_or_default();
    let conceded: Vec<String> =
        sentences.filter(|it| concedes(it)).map(truncate_sentence).collect();
    let mut short = first;
    if !conceded.is_empty() {
        short += &format!(" Concedes: {}", conceded.join(" "));
    }
    let cited = cited(text).into_iter().map(|it| format!("[{it}]"));
    let missing: Vec<String> = cited.filter(|it| !short.contains(it)).collect();
    if !missing.is_empty() {
        short += &format!(" Cites: {}.", missing.join(", "));
    }
    short
}

/// Splits a text into sentences: at `.`, `?` or `!` before whitespace, at full-width punctuation, and at line ends.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    let ends = |it: char| matches!(it, '.' | '!' | '?');
    let wide_ends = |it: char| matches!(it, '。' | '！' | '？');
    let mut rest = text;
    let parts = std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut before = ' ';
        let end = rest.char_indices().find_map(|(at, it)| {
            let ended = it == '\n' || (it.is_whitespace() && ends(before)) || wide_ends(before);
            before = it;
            ended.then_some(at)
        });
        let (sentence, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after.strip_prefix('\n').unwrap_or(after.trim_start_matches(' '));
        Some(sentence.trim())
    });
    parts.filter(|it| it.chars().any(char::is_alphanumeric))
}

fn concedes(sentence: &str) -> bool {
    let small = sentence.to_lowercase();
    CONCEDING.iter().any(|it| small.contains(it))
}

fn truncate_sentence(sentence: &str) -> String {
    truncate(sentence, MAX_SENTENCE).into_owned()
}

/// Returns the ids in square brackets, such as `[F1-07]` or `[F1-07, F2-03]`, without duplicates.
fn cited(text: &str) -> Vec<&str> {
    let mut ids = Vec::new();
    for bracket in text.split('[').skip(1) {
        let Some((inside, _)) = bracket.split_once(']') else { continue };
        for id in inside.split([',', ';']).map(str::trim).filter(|it| is_id(it)) {
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
    }
    ids
}

/// Returns whether the text is an id: letters and digits, then a hyphen, then digits.
fn is_id(text: &str) -> bool {
    let alphanumeric = |it: &str| it.bytes().all(|it| it.is_ascii_alphanumeric());
    text.len() <= 16
        && text.starts_with(|it: char| it.is_ascii_uppercase())
        && text.split_once('-').is_some_and(|(source, number)| {
            alphanumeric(source)
                && !number.is_empty()
                && number.bytes().all(|it| it.is_ascii_digit())
        })
}
