//! Rounds in short, without a model: what each speaker began with, conceded and cited.

use super::Round;

/// A first sentence longer than this is cut: many a text has no full stop.
const MAX_SENTENCE: usize = 300;

/// Words of somebody who gives way.
const CONCEDING: [&str; 12] = [
    "concede",
    "conceding",
    "i grant",
    "i accept",
    "i acknowledge",
    "i agree",
    "you are right",
    "you're right",
    "is right that",
    "fair point",
    "valid point",
    "valid concern",
];

/// Sums up rounds under a heading; nothing for no rounds.
pub(crate) fn summarise(rounds: &[Round]) -> String {
    let entries = rounds.iter().flat_map(|round| {
        round
            .entries
            .iter()
            .map(|it| format!("Round {}, {}: {}", round.number, it.speaker, shorten(&it.text)))
    });
    under_heading(rounds, &entries.collect::<Vec<_>>().join("\n"))
}

/// A summary under the heading that says which rounds it is of.
pub(crate) fn under_heading(rounds: &[Round], summary: &str) -> String {
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
    let first = sentences.next().map(cut).unwrap_or_default();
    let conceded: Vec<String> = sentences.filter(|it| concedes(it)).map(cut).collect();
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

/// The sentences of a text: up to a full stop, question or exclamation mark before a space, or a line's end.
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

fn cut(sentence: &str) -> String {
    match sentence.char_indices().nth(MAX_SENTENCE) {
        Some((end, _)) => format!("{}…", &sentence[..end]),
        None => sentence.to_owned(),
    }
}

/// The ids in square brackets, as `[F1-07]` or `[F1-07, F2-03]`, each once.
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

/// Letters and digits, a hyphen, digits.
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
