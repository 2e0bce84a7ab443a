//! The text of an answer that is being generated: decodes the bytes of tokens to characters and detects stop sequences.

/// The text of an answer that is being generated.
#[derive(Debug, Default)]
pub(super) struct AnswerText {
    text: String,
    /// Bytes of an incomplete character.
    pending: Vec<u8>,
    /// Length of the text that has already been emitted, in bytes.
    emitted: usize,
}

impl AnswerText {
    /// Appends the bytes of a token. Returns whether the text now contains a stop sequence.
    pub(super) fn push(&mut self, bytes: &[u8], stop: &[String]) -> bool {
        // The search below starts at the end of the emitted text: a stop sequence may start in an earlier token, but
        // never in text that has already been emitted.
        self.pending.extend(bytes);
        self.decode_pending();
        let found = stop.iter().filter(|it| !it.is_empty());
        let found = found.filter_map(|it| self.text[self.emitted..].find(it.as_str())).min();
        if let Some(at) = found {
            self.text.truncate(self.emitted + at);
        }
        found.is_some()
    }

    /// Returns the new text that can be emitted now. Withholds the end of the text if it may be the start of a stop
    /// sequence.
    pub(super) fn take_ready(&mut self, stop: &[String]) -> &str {
        let new = &self.text[self.emitted..];
        let withheld =
            stop.iter().map(|it| partial_match_length(new, it)).max().unwrap_or_default();
        let from = std::mem::replace(&mut self.emitted, self.text.len() - withheld);
        &self.text[from..self.emitted]
    }

    /// Returns the remaining text at the end of the answer. Replaces an incomplete character with the replacement
    /// character.
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

    /// Decodes the complete characters among the pending bytes and keeps the bytes of an incomplete one.
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

/// Returns whether the bytes end with an incomplete character that further bytes can complete.
fn is_incomplete(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

/// Returns the length, in bytes, of the longest suffix of the text that is a proper prefix of a stop sequence.
fn partial_match_length(text: &str, word: &str) -> usize {
    let lengths = (1..word.len()).rev().filter(|it| word.is_char_boundary(*it));
    lengths.into_iter().find(|it| text.ends_with(&word[..*it])).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pushes the bytes one at a time. Returns the emitted pieces, and whether a stop sequence was reached.
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
    fn characters_are_emitted_when_complete() {
        check("aß€🦀", &[], &["a", "ß", "€", "🦀"], false);
    }

    #[test]
    fn invalid_bytes_are_replaced() {
        assert_eq!(pieces(b"a\xffb\xe2\x82", &[]).0.concat(), "a\u{fffd}b\u{fffd}");
        assert_eq!(pieces(b"\xe2\x82a", &[]).0.concat(), "\u{fffd}a");
    }

    #[test]
    fn text_ends_before_stop_sequences() {
        check("abEND!", &["END"], &["a", "b"], true);
        check("aENough", &["END"], &["a", "ENo", "u", "g", "h"], false);
        check("aE", &["END"], &["a", "E"], false);
        check("xaab", &["aab", "ab"], &["x"], true);
        check("aaab", &["aab"], &["a"], true);
        check("a€b", &["€b"], &["a"], true);
        check("ab", &[""], &["a", "b"], false);
    }
}
