//! Finds words in requests: the conditions of rules, and what rules take from a request.

use std::collections::HashSet;

use crate::{Request, Role};

/// A capture is a name, an id or a sentence: what is longer is not what was meant.
const MAX_CAPTURE: usize = 400;

/// The texts of a request, the one to answer first, then the system text, then the others from the newest.
pub(crate) fn texts(request: &Request) -> Vec<String> {
    let mut messages = request.messages.iter().rev().map(crate::Message::text);
    let last = messages.next();
    last.into_iter().chain(request.system.clone()).chain(messages).collect()
}

/// The words of the last one who asked.
pub(crate) fn prompt(request: &Request) -> String {
    let mut messages = request.messages.iter().rev();
    messages.find(|it| it.role == Role::User).map(crate::Message::text).unwrap_or_default()
}

/// Whether the pieces of a pattern between its stars occur one after the other, in any case of letters.
pub(crate) fn occurs(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.to_lowercase(), text.to_lowercase());
    let mut rest = text.as_str();
    pattern.split('*').all(|piece| match rest.find(piece) {
        Some(at) => {
            rest = &rest[at + piece.len()..];
            true
        }
        None => false,
    })
}

/// All that stands for `{}` in a pattern, each once, in the order of the texts.
pub(crate) fn find(pattern: &str, texts: &[String]) -> Vec<String> {
    let Some((before, after)) = pattern.split_once("{}") else {
        return Vec::new();
    };
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    // No further than a capture can go: a long line is not read to its end from every place in it.
    let near = 2 * MAX_CAPTURE + after.len();
    for text in texts {
        for (at, _) in text.match_indices(before) {
            let rest = &text[at + before.len()..];
            let line = rest[..rest.floor_char_boundary(near)].lines().next().unwrap_or_default();
            let end = if after.is_empty() { Some(line.len()) } else { line.find(after) };
            let Some(end) = end else { continue };
            let capture = line[..end].trim();
            if !capture.is_empty() && capture.len() <= MAX_CAPTURE && seen.insert(capture) {
                found.push(capture.to_owned());
            }
        }
    }
    found
}
