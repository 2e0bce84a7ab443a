//! Makes workers' text safe to print to a terminal.

/// Escapes control characters (except tab) and characters that are invisible or change the text direction.
#[must_use]
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

/// Returns whether a character is a control character (except tab), invisible, or changes the text direction.
pub(crate) fn is_invisible(char: char) -> bool {
    char != '\t' && app_support::terminal::is_invisible(char)
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
        assert_eq!(escape_invisible("\tplain … text, é 日本"), "\tplain … text, é 日本");
    }
}
