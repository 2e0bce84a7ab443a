//! Makes texts from a guest safe to show in errors, logs and terminals.

/// Maximum length of a sanitized text, in bytes before escaping.
const MAX_TEXT: usize = 4 << 10;

/// Truncates a text and escapes its control characters with [`escape_controls`].
pub(crate) fn sanitize(text: &str) -> String {
    escape_controls(&text[..text.floor_char_boundary(MAX_TEXT)])
}

/// Escapes all characters that could move the cursor, change the writing direction or control a terminal. An escaped
/// character looks like `\u{1b}`. Newlines and tabs are kept.
pub(crate) fn escape_controls(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if is_unsafe_to_print(character) {
            escaped.extend(character.escape_unicode());
        } else {
            escaped.push(character);
        }
    }
    escaped
}

fn is_unsafe_to_print(character: char) -> bool {
    let is_invisible = matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    is_invisible || (character.is_control() && !matches!(character, '\n' | '\t'))
}

#[cfg(test)]
mod tests {
    use super::{MAX_TEXT, sanitize};

    #[test]
    fn control_characters_are_escaped_and_long_texts_truncated() {
        assert_eq!(sanitize("é\n\tok \u{1b}]0;x\u{7}\r"), "é\n\tok \\u{1b}]0;x\\u{7}\\u{d}");
        assert_eq!(sanitize("a\u{202e}b\u{9b}"), "a\\u{202e}b\\u{9b}");
        assert_eq!(sanitize(&"é".repeat(MAX_TEXT)).len(), MAX_TEXT);
        assert_eq!(sanitize(&format!("x{}", "é".repeat(MAX_TEXT))).len(), MAX_TEXT - 1);
    }
}
