//! Splits a byte stream into events.
//!
//! The bytes arrive in chunks of arbitrary length, which may end inside a line ending or a character. Lines are
//! therefore collected as bytes and decoded only when they are complete.

use std::mem;

use super::call_error::CallError;
use crate::ErrorKind;

/// How a streamed response is split into events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Server-sent events.
    Sse,
    /// One JSON value per line.
    Lines,
}

/// Splits bytes into events, independently of how the bytes are chunked. Keeps only the data of each event. The name of
/// the event is dropped, because the data repeats it where it matters.
#[derive(Debug)]
pub(crate) struct EventFramer {
    framing: Framing,
    max_event_bytes: usize,
    /// The current, incomplete line.
    line: Vec<u8>,
    /// Whether the last byte was a carriage return. If a line feed follows, it belongs to the same line ending.
    after_return: bool,
    /// Whether the first line has ended. Only the first line can start with a byte order mark.
    is_begun: bool,
    /// Data lines of the current, incomplete event.
    data: Option<String>,
}

impl EventFramer {
    /// Creates a framer for events of at most `max_event_bytes` bytes.
    pub(crate) fn new(framing: Framing, max_event_bytes: usize) -> Self {
        Self {
            framing,
            max_event_bytes,
            line: Vec::new(),
            after_return: false,
            is_begun: false,
            data: None,
        }
    }

    /// Adds bytes and returns the events that they complete.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> Result<Vec<String>, CallError> {
        let mut events = Vec::new();
        while let Some(&first) = bytes.first() {
            if mem::take(&mut self.after_return) && first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = memchr::memchr2(b'\n', b'\r', bytes);
            let (piece, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            self.collect(piece)?;
            bytes = rest;
            if let Some((&end, rest)) = rest.split_first() {
                self.after_return = end == b'\r';
                bytes = rest;
                events.extend(self.end_line());
            }
        }
        Ok(events)
    }

    /// Returns the last event if the stream ended without a line ending after it. Some servers omit the last line
    /// ending.
    ///
    /// The event may be truncated at any byte; only the decoder can tell whether it is usable.
    pub(crate) fn finish(mut self) -> Option<String> {
        let event = self.end_line();
        event.or_else(|| self.end_event())
    }

    fn collect(&mut self, piece: &[u8]) -> Result<(), CallError> {
        let held = self.line.len() + self.data.as_ref().map_or(0, String::len);
        if held + piece.len() > self.max_event_bytes {
            let message = format!("an event has more than {} bytes", self.max_event_bytes);
            return Err(CallError::new(ErrorKind::ResponseTooLarge, message));
        }
        self.line.extend_from_slice(piece);
        Ok(())
    }

    fn end_line(&mut self) -> Option<String> {
        let bytes = mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&bytes);
        let line = if mem::replace(&mut self.is_begun, true) {
            &line
        } else {
            line.strip_prefix('\u{feff}').unwrap_or(&line)
        };
        match self.framing {
            Framing::Lines => self.data = Some(line.to_owned()),
            Framing::Sse if line.is_empty() => {}
            Framing::Sse => {
                self.field(line);
                return None;
            }
        }
        self.end_event()
    }

    fn field(&mut self, line: &str) {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match (name, &mut self.data) {
            ("data", None) => self.data = Some(value.to_owned()),
            ("data", Some(data)) => {
                data.push('\n');
                data.push_str(value);
            }
            // Ignores comments (fields with an empty name), the field `event`, and the fields `id` and `retry`, which
            // matter only to clients that reconnect.
            _ => {}
        }
    }

    /// Ends the current event and returns it, unless it has no data.
    fn end_event(&mut self) -> Option<String> {
        self.data.take().filter(|it| !it.trim().is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(framing: Framing, pieces: &[&[u8]]) -> Vec<String> {
        let mut framer = EventFramer::new(framing, 1000);
        let mut events = Vec::new();
        for piece in pieces {
            events.extend(framer.push(piece).unwrap());
        }
        events.extend(framer.finish());
        events
    }

    /// Checks that the events are the same if the text is split at any two offsets or into single bytes.
    #[track_caller]
    fn check(framing: Framing, text: &[u8], expect: &[&str]) {
        for first in 0..=text.len() {
            for second in first..=text.len() {
                let pieces = [&text[..first], &text[first..second], &text[second..]];
                assert_eq!(cut(framing, &pieces), expect, "cut at {first} and {second}");
            }
        }
        let bytes: Vec<_> = text.chunks(1).collect();
        assert_eq!(cut(framing, &bytes), expect, "byte by byte");
    }

    #[test]
    fn all_line_endings_are_supported() {
        let expect = ["1", "2", "3"];
        check(Framing::Sse, b"data: 1\n\ndata: 2\n\ndata: 3\n\n", &expect);
        check(Framing::Sse, b"data: 1\r\n\r\ndata: 2\r\n\r\ndata: 3\r\n\r\n", &expect);
        check(Framing::Sse, b"data: 1\r\rdata: 2\r\rdata: 3\r\r", &expect);
        check(Framing::Sse, b"data: 1\n\r\ndata: 2\r\ndata: 4\r\n\rdata: 3", &["1", "2\n4", "3"]);
    }

    #[test]
    fn sse_fields_are_parsed() {
        let text = ": OPENROUTER PROCESSING\n\nevent: delta\nid: 7\nretry: 1\ndata:a\ndata:  b\ndata\n\n\
                    event: ping\n\ndata: ü€😀\n\nnonsense\n\n";
        let expect = ["a\n b\n", "ü€😀"];
        check(Framing::Sse, text.as_bytes(), &expect);
    }

    #[test]
    fn leading_byte_order_mark_is_ignored() {
        check(
            Framing::Sse,
            "\u{feff}data: a\n\ndata: \u{feff}b\n\n".as_bytes(),
            &["a", "\u{feff}b"],
        );
        check(Framing::Lines, "\u{feff}{}\n".as_bytes(), &["{}"]);
    }

    #[test]
    fn each_nonempty_line_is_an_event() {
        check(
            Framing::Lines,
            "{\"a\":\"ü\"}\r\n\n  \n2\r3".as_bytes(),
            &["{\"a\":\"ü\"}", "2", "3"],
        );
    }

    #[test]
    fn invalid_utf8_is_replaced() {
        check(Framing::Sse, b"data: \xff\xc3\n\n", &["\u{fffd}\u{fffd}"]);
    }

    #[test]
    fn event_size_is_limited() {
        let mut framer = EventFramer::new(Framing::Sse, 100);
        for _ in 0..50 {
            assert_eq!(framer.push(b"data: 0123456789\n\n").unwrap().len(), 1);
        }
        let push = |framer: &mut EventFramer| {
            (0..50).try_for_each(|_| framer.push(b"data: 0123\n").map(drop))
        };
        assert_eq!(push(&mut framer).unwrap_err().kind, ErrorKind::ResponseTooLarge);
        let mut framer = EventFramer::new(Framing::Lines, 100);
        assert_eq!(framer.push(&[b'x'; 101]).unwrap_err().kind, ErrorKind::ResponseTooLarge);
    }
}
