//! The answer as it grows: whole characters out of the bytes of tokens, up to a word to stop at.

/// The words of an answer.
#[derive(Debug, Default)]
pub(super) struct Words {
    text: String,
    /// Bytes of a character that is not whole yet.
    open: Vec<u8>,
    /// How much of the text was told.
    told: usize,
}

impl Words {
    /// Adds the bytes of a token; says whether the answer came to a word to stop at.
    pub(super) fn push(&mut self, bytes: &[u8], stop: &[String]) -> bool {
        // A word to stop at may have begun before, but never in what was told.
        self.open.extend(bytes);
        self.close_characters();
        let found = stop.iter().filter(|it| !it.is_empty());
        let found = found.filter_map(|it| self.text[self.told..].find(it.as_str())).min();
        if let Some(at) = found {
            self.text.truncate(self.told + at);
        }
        found.is_some()
    }

    /// What can be told now: all but what may turn out to be a word to stop at.
    pub(super) fn tell(&mut self, stop: &[String]) -> &str {
        let new = &self.text[self.told..];
        let held = stop.iter().map(|it| held(new, it)).max().unwrap_or_default();
        let from = std::mem::replace(&mut self.told, self.text.len() - held);
        &self.text[from..self.told]
    }

    /// What was not told yet, when nothing more comes. A character that never got whole is replaced.
    pub(super) fn tell_rest(&mut self) -> &str {
        if !self.open.is_empty() {
            self.open.clear();
            self.text.push(char::REPLACEMENT_CHARACTER);
        }
        self.tell(&[])
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// Moves whole characters over, and keeps the bytes of one that is not whole.
    fn close_characters(&mut self) {
        let mut open = std::mem::take(&mut self.open);
        let kept = {
            let mut chunks = open.utf8_chunks().peekable();
            let mut kept = 0;
            while let Some(chunk) = chunks.next() {
                self.text.push_str(chunk.valid());
                let is_last = chunks.peek().is_none();
                match chunk.invalid() {
                    [] => {}
                    invalid if is_last && may_get_whole(invalid) => kept = invalid.len(),
                    _ => self.text.push(char::REPLACEMENT_CHARACTER),
                }
            }
            kept
        };
        self.open = open.split_off(open.len() - kept);
    }
}

/// Whether more bytes can make a character of these.
fn may_get_whole(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

/// How much of a text's end is the beginning of a word.
fn held(text: &str, word: &str) -> usize {
    let lengths = (1..word.len()).rev().filter(|it| word.is_char_boundary(*it));
    lengths.into_iter().find(|it| text.ends_with(&word[..*it])).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pieces that are told of bytes that come one by one, and whether they came to a stop.
    fn pieces(bytes: &[u8], stop: &[&str]) -> (Vec<String>, bool) {
        let stop: Vec<String> = stop.iter().map(|it| (*it).to_owned()).collect();
        let mut words = Words::default();
        let mut pieces = vec![];
        let stopped = bytes.iter().any(|byte| {
            let stopped = words.push(&[*byte], &stop);
            if !stopped {
                pieces.push(words.tell(&stop).to_owned());
            }
            stopped
        });
        pieces.push(words.tell_rest().to_owned());
        pieces.retain(|it| !it.is_empty());
        assert_eq!(words.into_text(), pieces.concat());
        (pieces, stopped)
    }

    #[track_caller]
    fn check(text: &str, stop: &[&str], expect: &[&str], expect_stopped: bool) {
        let (pieces, stopped) = pieces(text.as_bytes(), stop);
        assert_eq!(
            (pieces, stopped),
            (expect.iter().map(|it| (*it).to_owned()).collect(), expect_stopped)
        );
    }

    #[test]
    fn characters_come_whole() {
        check("aß€🦀", &[], &["a", "ß", "€", "🦀"], false);
    }

    #[test]
    fn bytes_that_make_no_character_are_replaced() {
        assert_eq!(pieces(b"a\xffb\xe2\x82", &[]).0.concat(), "a\u{fffd}b\u{fffd}");
        assert_eq!(pieces(b"\xe2\x82a", &[]).0.concat(), "\u{fffd}a");
    }

    #[test]
    fn words_to_stop_at() {
        check("abEND!", &["END"], &["a", "b"], true);
        check("aENough", &["END"], &["a", "ENo", "u", "g", "h"], false);
        check("aE", &["END"], &["a", "E"], false);
        check("xaab", &["aab", "ab"], &["x"], true);
        check("aaab", &["aab"], &["a"], true);
        check("a€b", &["€b"], &["a"], true);
        check("ab", &[""], &["a", "b"], false);
    }
}
