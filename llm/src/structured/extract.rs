//! Finds JSON in a text: balanced brackets whose contents parse.

use std::{collections::VecDeque, ops::Range};

use serde_json::Value;

/// Maximum bracket depth, the same as serde_json's.
const MAX_DEPTH: usize = 128;

/// Maximum number of candidates. The answer is one of the last values of a reply.
const MAX_FOUND: usize = 32;

/// Maximum length of a property name.
const MAX_NAME: usize = 256;

/// JSON found in a text.
pub(crate) struct Candidate {
    pub(crate) json: Json,
    /// Position in the text; for broken JSON only its start.
    pub(crate) range: Range<usize>,
    /// Whether it is on a quoted line, one that starts with `>`.
    pub(crate) quoted: bool,
}

/// Complete or broken JSON.
pub(crate) enum Json {
    Whole(Value),
    /// An object that is truncated or malformed, with the positions of its complete members.
    Broken(Vec<Range<usize>>),
}

impl Json {
    pub(crate) fn value(&self) -> Option<&Value> {
        match self {
            Self::Whole(value) => Some(value),
            Self::Broken(_) => None,
        }
    }
}

/// Returns the outermost objects and arrays in a text, in order; if there are many, only the last ones. Includes
/// broken objects whose first property satisfies `is_name`.
///
/// Tries every opening bracket, because brackets and quotes in prose need not be balanced. The total effort is
/// bounded by a multiple of the text's length, which ordinary replies do not reach.
pub(crate) fn values(text: &str, is_name: impl Fn(&str) -> bool) -> Vec<Candidate> {
    let mut effort = 8 * text.len() + (1 << 16);
    let mut found = VecDeque::new();
    let (mut at, mut line, mut seen) = (0, 0, 0);
    while let Some(skipped) = text[at..].find(['{', '[']) {
        let start = at + skipped;
        line = text[seen..start].rfind('\n').map_or(line, |newline| seen + newline + 1);
        seen = start;
        if !may_begin(&text[start..]) {
            at = start + 1;
            continue;
        }
        let (end, cost) = match closing(&text.as_bytes()[start..]) {
            Ok(length) => (Some(start + length), length),
            Err(read) => (None, read),
        };
        if cost > effort {
            break;
        }
        effort -= cost;
        let quoted = text.as_bytes()[line] == b'>';
        let value = end.and_then(|end| serde_json::from_str(&text[start..end]).ok());
        match (value, end) {
            (Some(value), Some(end)) => {
                at = end;
                match found.back_mut() {
                    Some(Candidate { json: Json::Broken(members), quoted: outer, .. })
                        if *outer == quoted && ends_before_member(&text[..start]) =>
                    {
                        members.push(start..end);
                    }
                    _ => found.push_back(Candidate {
                        json: Json::Whole(value),
                        range: start..end,
                        quoted,
                    }),
                }
            }
            _ => {
                at = start + 1;
                if first_name(&text[start..]).is_some_and(&is_name) {
                    let json = Json::Broken(Vec::new());
                    found.push_back(Candidate { json, range: start..at, quoted });
                }
            }
        }
        if found.len() > MAX_FOUND {
            found.pop_front();
        }
    }
    found.into()
}

/// Returns the first property name of an object.
fn first_name(text: &str) -> Option<&str> {
    let name = text.strip_prefix('{')?.trim_start().strip_prefix('"')?;
    let end = name.bytes().take(MAX_NAME).position(|it| it == b'"')?;
    name[end + 1..].trim_start().starts_with(':').then_some(&name[..end])
}

/// Returns whether a text ends like JSON before a member of an object or an item of an array.
fn ends_before_member(text: &str) -> bool {
    let text = text.trim_end();
    let is_named = |it: &str| it.trim_end().ends_with('"');
    text.ends_with(['[', ',']) || text.strip_suffix(':').is_some_and(is_named)
}

/// Returns whether the text after an opening bracket can be JSON; quickly rejects most brackets in prose.
fn may_begin(text: &str) -> bool {
    let inside = text[1..].trim_start().bytes().next();
    match inside {
        Some(b'"') => true,
        Some(b'}') => text.starts_with('{'),
        Some(b']' | b'{' | b'[' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => text.starts_with('['),
        _ => false,
    }
}

/// Returns the length up to the matching closing bracket, or how many bytes were read if there is none.
fn closing(bytes: &[u8]) -> Result<usize, usize> {
    let mut open = Vec::new();
    let mut in_string = false;
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if in_string => at += 1,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            bracket @ (b'{' | b'[') if open.len() < MAX_DEPTH => open.push(bracket),
            b'}' if open.pop() != Some(b'{') => return Err(at),
            b']' if open.pop() != Some(b'[') => return Err(at),
            b'{' | b'[' => return Err(at),
            _ => {}
        }
        at += 1;
        if open.is_empty() {
            return Ok(at);
        }
    }
    Err(bytes.len())
}
