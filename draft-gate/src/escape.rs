//! Makes text from workers and from their programs safe for terminals, messages and findings.

use crate::unicode::is_invisible;

/// Escapes control characters (except tab) and characters that are invisible or change the text direction.
pub fn escape_invisible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for char in text.chars() {
        if is_invisible(char) {
            shown.extend(char.escape_unicode());
        } else {
            shown.push(char);
        }
    }
    shown
}

/// Escapes all characters outside ASCII, so that characters that look alike can be distinguished.
pub(crate) fn escape_non_ascii(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for char in text.chars() {
        if char.is_ascii_graphic() { shown.push(char) } else { shown.extend(char.escape_unicode()) }
    }
    shown
}

/// Makes a worker's text safe for messages by truncating it and escaping control characters.
pub(crate) fn escape_for_message(text: &str) -> String {
    let escaped: String = text.chars().take(200).flat_map(char::escape_debug).collect();
    escaped.replace("\\'", "'").replace("\\\"", "\"")
}

/// Removes control characters, except newlines and tabs.
pub(crate) fn without_controls(text: &str) -> String {
    text.chars().filter(|it| matches!(it, '\n' | '\t') || !it.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_invisible_characters_are_escaped() {
        assert_eq!(escape_invisible("+a\x1b[2J\u{202e}b\r"), "+a\\u{1b}[2J\\u{202e}b\\u{d}");
        assert_eq!(
            escape_invisible("a\u{9b}2J\u{61c}\u{e0041}\u{e0100}"),
            "a\\u{9b}2J\\u{61c}\\u{e0041}\\u{e0100}"
        );
        assert_eq!(escape_invisible("a\u{3164}\u{2800}"), "a\\u{3164}\\u{2800}");
        assert_eq!(escape_invisible("\tplain … text, é 日本"), "\tplain … text, é 日本");
    }
}
