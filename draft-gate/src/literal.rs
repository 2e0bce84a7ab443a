//! Reads string literals, in the syntax of many languages.

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueForm {
    /// In quotes, between tags, or unquoted in a file whose unquoted values are text.
    Literal,
    /// In quotes, as an argument or an operand of a comparison. The value may also be a name or a label.
    Argument,
    /// Unquoted, so that it may also be an expression or a word of a sentence.
    Unquoted,
}

/// Maximum length of the text after a name that is examined, in bytes. Longer values are truncated; their first bytes
/// are enough to recognize a secret.
pub(crate) const MAX_VALUE: usize = 1 << 10;

/// Returns the content of the string literal with which a text starts. A literal without a closing quote is accepted
/// only if it is long, because only long text is truncated.
pub(crate) fn quoted(text: &str) -> Option<&str> {
    match literal(text)? {
        (inner, Some(end)) => Some(&inner[..end]),
        (inner, None) => (inner.len() >= MAX_VALUE / 2).then_some(inner),
    }
}

/// Returns the text after the opening quote of the string literal with which a text starts, and the position of the
/// closing quote in it, if the literal ends.
pub(crate) fn literal(text: &str) -> Option<(&str, Option<usize>)> {
    let prefix = text.len()
        - text
            .trim_start_matches(['b', 'r', 'u', 'f', 'B', 'R', 'U', 'F', 'N', 'L', '@', '#', '&'])
            .len();
    let text = if prefix <= 3 { &text[prefix..] } else { text };
    // A string literal inside another one, with escaped quotes.
    for quote in ["\\\"", "\\'"] {
        if let Some(inner) = text.strip_prefix(quote) {
            return Some((inner, inner.find(quote)));
        }
    }
    let quote = text.chars().next().filter(|it| matches!(it, '"' | '\'' | '`'))?;
    let inner = &text[1..];
    let mut is_escaped = false;
    let end = inner.char_indices().find(|(_, char)| {
        let is_end = *char == quote && !is_escaped;
        is_escaped = *char == '\\' && !is_escaped;
        is_end
    });
    Some((inner, end.map(|it| it.0)))
}

pub(crate) fn until<'a>(text: &'a str, ends: &[char]) -> &'a str {
    &text[..text.find(ends).unwrap_or(text.len())]
}

/// Counts the quotes before a position in a line.
#[derive(Default)]
pub(crate) struct OpenQuotes {
    at: usize,
    is_open: [bool; 3],
}

impl OpenQuotes {
    pub(crate) fn advance(&mut self, line: &str, to: usize) {
        for byte in &line.as_bytes()[self.at..to] {
            for (quote, is_open) in [b'"', b'\'', b'`'].iter().zip(&mut self.is_open) {
                *is_open ^= byte == quote;
            }
        }
        self.at = to;
    }

    pub(crate) fn is_in_string(&self) -> bool {
        self.is_open.contains(&true)
    }
}
