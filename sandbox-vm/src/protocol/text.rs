//! Texts of a guest, on their way into errors, logs and terminals.

/// How many bytes of such a text are kept.
const MAX_TEXT: usize = 4 << 10;

/// The beginning of a text, made [`harmless`].
pub(crate) fn plain(text: &str) -> String {
    harmless(&text[..text.floor_char_boundary(MAX_TEXT)])
}

/// A text whose characters do nothing but show themselves: what would move a cursor, turn the direction of writing
/// around or speak to a terminal is written out, as in `\u{1b}`. Lines and tabs stay.
pub(crate) fn harmless(text: &str) -> String {
    let mut harmless = String::with_capacity(text.len());
    for character in text.chars() {
        if acts(character) {
            harmless.extend(character.escape_unicode());
        } else {
            harmless.push(character);
        }
    }
    harmless
}

fn acts(character: char) -> bool {
    let is_invisible = matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    is_invisible || (character.is_control() && !matches!(character, '\n' | '\t'))
}

#[cfg(test)]
mod tests {
    use super::{MAX_TEXT, plain};

    #[test]
    fn what_acts_is_written_out_and_what_is_long_is_cut() {
        assert_eq!(plain("é\n\tok \u{1b}]0;x\u{7}\r"), "é\n\tok \\u{1b}]0;x\\u{7}\\u{d}");
        assert_eq!(plain("a\u{202e}b\u{9b}"), "a\\u{202e}b\\u{9b}");
        assert_eq!(plain(&"é".repeat(MAX_TEXT)).len(), MAX_TEXT);
        assert_eq!(plain(&format!("x{}", "é".repeat(MAX_TEXT))).len(), MAX_TEXT - 1);
    }
}
