//! Finds JSON in a text by searching for balanced brackets whose contents parse as JSON.

use std::{collections::VecDeque, ops::Range};

use serde_json::Value;

/// Maximum nesting depth of brackets; the same limit as in serde_json.
const MAX_DEPTH: usize = 128;

/// Maximum number of candidates. If there are more, only the last ones are kept, because the answer is usually near
/// the end of a reply.
const MAX_FOUND: usize = 32;

/// Maximum length of a property name, in bytes.
const MAX_NAME: usize = 256;

/// JSON found in a text.
pub(crate) struct Candidate {
    pub(crate) json: Json,
    /// Position in the text. For broken JSON, the range covers only the opening bracket.
    pub(crate) range: Range<usize>,
    /// Whether the JSON starts on a quoted line, which is a line that starts with `>`.
    pub(crate) quoted: bool,
}

/// Complete or broken JSON.
pub(crate) enum Json {
    Whole(Value),
    /// An object that is truncated or malformed. The ranges are the positions of the complete objects and arrays
    /// inside it.
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

/// Returns the outermost objects and arrays in a text, in order. If there are more than [`MAX_FOUND`], returns only
/// the last ones. Includes broken objects if `is_name` returns true for their first property name.
///
/// Tries every opening bracket, because brackets and quotes in prose need not be balanced. The search stops after it
/// has read eight times the length of the text plus 64 KiB. Ordinary replies do not reach this limit.
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

/// Returns whether a text ends with characters that precede a nested value in JSON: `[`, `,`, or a colon after a quoted
/// key.
fn ends_before_member(text: &str) -> bool {
    let text = text.trim_end();
    let is_named = |it: &str| it.trim_end().ends_with('"');
    text.ends_with(['[', ',']) || text.strip_suffix(':').is_some_and(is_named)
}

/// Returns whether a text that starts with an opening bracket can be JSON. Looks only at the first character inside
/// the bracket, which suffices to reject most brackets in prose.
fn may_begin(text: &str) -> bool {
    let inside = text[1..].trim_start().bytes().next();
    match inside {
        Some(b'"') => true,
        Some(b'}') => text.starts_with('{'),
        Some(b']' | b'{' | b'[' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => text.starts_with('['),
        _ => false,
    }
}

/// Returns the length of the text up to and including the matching closing bracket. If no bracket matches, the error is
/// the number of bytes that were read.
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
