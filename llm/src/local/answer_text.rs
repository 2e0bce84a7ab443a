//! The answer as it grows: whole characters out of the bytes of tokens, up to a word to stop at.

/// The words of an answer.
#[derive(Debug, Default)]
pub(super) struct AnswerText {
    text: String,
    /// Bytes of a character that is not whole yet.
    pending: Vec<u8>,
    /// How much of the text was emitted.
    emitted: usize,
}

impl AnswerText {
    /// Adds the bytes of a token; says whether the answer came to a word to stop at.
    pub(super) fn push(&mut self, bytes: &[u8], stop: &[String]) -> bool {
        // A word to stop at may have begun before, but never in what was emitted.
        self.pending.extend(bytes);
        self.decode_pending();
        let found = stop.iter().filter(|it| !it.is_empty());
        let found = found.filter_map(|it| self.text[self.emitted..].find(it.as_str())).min();
        if let Some(at) = found {
            self.text.truncate(self.emitted + at);
        }
        found.is_some()
    }

    /// What can be emitted now: all but what may turn out to be a word to stop at.
    pub(super) fn take_ready(&mut self, stop: &[String]) -> &str {
        let new = &self.text[self.emitted..];
        let withheld = stop.iter().map(|it| partial_match_length(new, it)).max().unwrap_or_default();
        let from = std::mem::replace(&mut self.emitted, self.text.len() - withheld);
        &self.text[from..self.emitted]
    }

    /// What was not emitted yet, when nothing more comes. A character that never got whole is replaced.
    pub(super) fn take_rest(&mut self) -> &str {
        if !self.pending.is_empty() {
            self.pending.clear();
            self.text.push(char::REPLACEMENT_CHARACTER);
        }
        self.take_ready(&[])
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// Moves whole characters over, and keeps the bytes of one that is not whole.
    fn decode_pending(&mut self) {
        let mut pending = std::mem::take(&mut self.pending);
        let incomplete = {
            let mut chunks = pending.utf8_chunks().peekable();
            let mut incomplete = 0;
            while let Some(chunk) = chunks.next() {
                self.text.push_str(chunk.valid());
                let is_last = chunks.peek().is_none();
                match chunk.invalid() {
                    [] => {}
                    invalid if is_last && is_incomplete(invalid) => incomplete = invalid.len(),
                    _ => self.text.push(char::REPLACEMENT_CHARACTER),
                }
            }
            incomplete
        };
        self.pending = pending.split_off(pending.len() - incomplete);
    }
}

/// Whether more bytes can make a character of these.
fn is_incomplete(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

/// How much of a text's end is the beginning of a word.
fn partial_match_length(text: &str, word: &str) -> usize {
    let lengths = (1..word.len()).rev().filter(|it| word.is_char_boundary(*it));
    lengths.into_iter().find(|it| text.ends_with(&word[..*it])).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pieces that are emitted of bytes that come one by one, and whether they came to a stop.
    fn pieces(bytes: &[u8], stop: &[&str]) -> (Vec<String>, bool) {
        let stop: Vec<String> = stop.iter().map(|it| (*it).to_owned()).collect();
        let mut text = AnswerText::default();
        let mut pieces = vec![];
        let stopped = bytes.iter().any(|byte| {
            let stopped = text.push(&[*byte], &stop);
            if !stopped {
                pieces.push(text.take_ready(&stop).to_owned());
            }
            stopped
        });
        pieces.push(text.take_rest().to_owned());
        pieces.retain(|it| !it.is_empty());
        assert_eq!(text.into_text(), pieces.concat());
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
