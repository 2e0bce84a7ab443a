//! Makes text from models, providers and sandboxes safe to print to a terminal.

/// Returns whether a character controls the terminal, is invisible, changes the text direction, or can hide
/// instructions (Unicode tag characters). Returns `true` for tabs and newlines too.
pub fn is_invisible(char: char) -> bool {
    char.is_control()
        || matches!(char,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e01ef}')
}

/// Removes invisible characters, except for tabs and newlines. Unicode line and paragraph separators become newlines.
pub fn strip_invisible(text: &str) -> String {
    let line = |it: char| if matches!(it, '\u{2028}' | '\u{2029}') { '\n' } else { it };
    text.chars().map(line).filter(|it| matches!(it, '\n' | '\t') || !is_invisible(*it)).collect()
}

/// Replaces invisible characters, except for tabs, with U+FFFD. The result is one line.
pub fn replace_invisible(line: &str) -> String {
    line.chars().map(|it| if it != '\t' && is_invisible(it) { '\u{fffd}' } else { it }).collect()
}

/// Like [`replace_invisible`], but keeps newlines.
pub fn replace_invisible_in_lines(text: &str) -> String {
    text.split('\n').map(replace_invisible).collect::<Vec<_>>().join("\n")
}

/// Escapes invisible characters in a JSON text. The result represents the same JSON value.
pub fn escape_invisible_json(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for it in json.chars() {
        // Newlines are the only invisible characters outside the strings of pretty-printed JSON. All others are inside
        // strings, where they can be escaped.
        if it != '\n' && is_invisible(it) {
            for unit in it.encode_utf16(&mut [0; 2]) {
                escaped.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            escaped.push(it);
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{escape_invisible_json, replace_invisible_in_lines, strip_invisible};

    #[test]
    fn control_and_invisible_characters_are_removed_or_replaced() {
        let text = "a\u{1b}[2J\r\n\tb\u{202e}\u{2028}c\u{e0041}";
        assert_eq!(strip_invisible(text), "a[2J\n\tb\nc");
        assert_eq!(strip_invisible("a\u{ad}b\u{200b}c\u{85}d"), "abcd");
        assert_eq!(
            replace_invisible_in_lines(text),
            "a\u{fffd}[2J\u{fffd}\n\tb\u{fffd}\u{fffd}c\u{fffd}"
        );
    }

    proptest! {
        #[test]
        fn escaped_json_is_equivalent_and_fully_visible(
            text in "(?s)(.|[\u{80}-\u{9f}\u{202e}\u{e0041}\u{2028}\u{feff}]){0,40}"
        ) {
            let json = escape_invisible_json(&serde_json::to_string_pretty(&[&text]).unwrap());
            prop_assert_eq!(&strip_invisible(&json), &json);
            prop_assert_eq!(serde_json::from_str::<Vec<String>>(&json).unwrap(), [text]);
        }
    }
}
