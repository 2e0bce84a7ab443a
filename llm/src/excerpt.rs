//! Shortens texts and makes them safe to display.

use std::borrow::Cow;

/// Returns the first `max` characters of a text, followed by an ellipsis if the text is longer.
pub(crate) fn truncate(text: &str, max: usize) -> Cow<'_, str> {
    match text.char_indices().nth(max) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// Replaces control characters with spaces and truncates the text. A terminal could interpret control characters as
/// commands.
#[cfg(feature = "http")]
pub(crate) fn printable(text: &str, max: usize) -> String {
    truncate(text, max).chars().map(|it| if it.is_control() { ' ' } else { it }).collect()
}
