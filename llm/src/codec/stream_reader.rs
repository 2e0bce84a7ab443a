//! Decodes a streamed response from bytes.

use super::{
    call_error::CallError,
    framer::{EventFramer, Framing},
    protocol::Protocol,
    wire::{DecodedResponse, StreamDecoder},
};
use crate::{ErrorKind, Listener};

/// Decodes a streamed response from chunks of bytes, which may have any length.
pub(crate) struct StreamReader {
    protocol: Protocol,
    framer: EventFramer,
    decoder: Box<dyn StreamDecoder>,
    form: BodyForm,
    /// Start of the body, for the error message if the body contains no event.
    start: Vec<u8>,
    has_events: bool,
}

/// Maximum number of bytes of the body that an error message shows.
const MAX_START: usize = 80;

/// Form of the body, which is detected from its first characters.
enum BodyForm {
    /// The form is still unknown, because only whitespace has arrived.
    Unknown,
    /// A streamed response, as requested.
    Stream,
    /// A response that is not streamed. Some servers ignore the request to stream, and some send errors in this form.
    Whole(Vec<u8>),
}

impl StreamReader {
    /// Creates a reader for events of at most `max_event_bytes` bytes.
    pub(crate) fn new(protocol: Protocol, max_event_bytes: usize) -> Self {
        let framer = EventFramer::new(protocol.framing(), max_event_bytes);
        Self {
            protocol,
            framer,
            decoder: protocol.stream_decoder(),
            form: BodyForm::Unknown,
            start: Vec::new(),
            has_events: false,
        }
    }

    /// Decodes bytes and sends the pieces of the response that they contain to the listener.
    pub(crate) fn push(
        &mut self,
        bytes: &[u8],
        listener: &mut Listener<'_>,
    ) -> Result<(), CallError> {
        self.detect_form(bytes);
        if let BodyForm::Whole(body) = &mut self.form {
            // Whitespace before the response is dropped, because it may have arrived before the form was known.
            let bytes = if body.is_empty() { bytes.trim_ascii_start() } else { bytes };
            body.extend_from_slice(bytes);
            return Ok(());
        }
        let n_more = bytes.len().min(MAX_START - self.start.len());
        self.start.extend_from_slice(&bytes[..n_more]);
        let events = self.framer.push(bytes).map_err(|error| self.with_usage(error))?;
        for event in events {
            self.has_events = true;
            self.event(&event, listener).map_err(|error| self.with_usage(error))?;
        }
        Ok(())
    }

    /// Returns whether the response is complete. If it is, the rest of the stream need not be read.
    pub(crate) fn is_done(&self) -> bool {
        self.decoder.is_done()
    }

    /// Returns whether the finish reason has arrived. If it has, the response is complete even if the stream ends here.
    pub(crate) fn has_finish_reason(&self) -> bool {
        self.decoder.has_finish_reason()
    }

    /// Adds the token counts that have arrived so far to an error that has none, because the provider bills them.
    pub(crate) fn with_usage(&self, error: CallError) -> CallError {
        error.or_usage(self.decoder.usage())
    }

    /// Returns the whole response, or an error if the stream ended before the response was complete. Call this method
    /// after the last byte.
    pub(crate) fn finish(
        mut self,
        listener: &mut Listener<'_>,
    ) -> Result<DecodedResponse, CallError> {
        if let BodyForm::Whole(body) = self.form {
            let answer = self.protocol.decode(&body)?;
            listener.send_parts(&answer.content);
            return Ok(answer);
        }
        let last = self.framer.finish();
        let start = String::from_utf8_lossy(&self.start);
        if !self.has_events && last.is_none() && !starts_with_field(&start) {
            let start = start.trim();
            let message = format!("the body is not a stream of events; it starts with {start:?}");
            return Err(CallError::new(ErrorKind::Malformed, message));
        }
        if let Some(rest) = last
            && !self.decoder.is_done()
        {
            let error = match self.decoder.event(&rest, listener) {
                Err(error) if error.kind == ErrorKind::Malformed => {
                    // After the finish reason, only token counts and the end marker follow, so a truncated event does
                    // no harm.
                    let message = "the stream ended inside an event";
                    let cut = CallError::new(ErrorKind::Truncated, message);
                    (!self.decoder.has_finish_reason()).then_some(cut)
                }
                read => read.err(),
            };
            if let Some(error) = error {
                return Err(error.or_usage(self.decoder.usage()));
            }
        }
        let usage = self.decoder.usage();
        self.decoder.finish().map_err(|error| error.or_usage(usage))
    }

    fn event(&mut self, event: &str, listener: &mut Listener<'_>) -> Result<(), CallError> {
        if self.decoder.is_done() {
            return Ok(());
        }
        self.decoder.event(event, listener)
    }

    fn detect_form(&mut self, bytes: &[u8]) {
        let BodyForm::Unknown = self.form else { return };
        // A stream of server-sent events never starts with a brace or a bracket, so a body that does is a whole
        // response. A stream with one JSON value per line also starts with a brace, so such a body is always read as a
        // stream.
        self.form = match bytes.iter().find(|it| !it.is_ascii_whitespace()) {
            None => BodyForm::Unknown,
            Some(b'{' | b'[') if self.protocol.framing() == Framing::Sse => {
                BodyForm::Whole(Vec::new())
            }
            Some(_) => BodyForm::Stream,
        };
    }
}

/// Returns whether a body starts with a complete or truncated field of a server-sent event. A comment is a field
/// without a name.
fn starts_with_field(start: &str) -> bool {
    let start = start.trim_start_matches('\u{feff}').trim_start();
    let name = start.split([':', '\r', '\n']).next().unwrap_or_default();
    ["data", "event", "id", "retry"].iter().any(|it| it.starts_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Part, Piece, codec::Quirks};

    const SERVER: Protocol = Protocol::OpenAiChat(Quirks::SERVER);

    fn read(protocol: Protocol, body: &str) -> Result<(DecodedResponse, Vec<Piece>), CallError> {
        let mut pieces = Vec::new();
        let mut on_piece = |piece| pieces.push(piece);
        let listener = &mut Listener::new(&mut on_piece);
        let mut reader = StreamReader::new(protocol, 1000);
        for byte in body.as_bytes().chunks(1) {
            reader.push(byte, listener)?;
        }
        let answer = reader.finish(listener)?;
        Ok((answer, pieces))
    }

    #[test]
    fn unstreamed_response_is_accepted() {
        let body = r#" {"choices":[{"message":{"content":"hello"},"finish_reason":"stop"}]}"#;
        let (answer, pieces) = read(SERVER, body).unwrap();
        assert_eq!(answer.content, [Part::text("hello")]);
        assert_eq!(pieces, [Piece::Text("hello".to_owned())]);
        let error = r#"{"error":{"message":"slow down","code":"rate_limit_exceeded"}}"#;
        assert_eq!(read(SERVER, error).unwrap_err().kind, ErrorKind::RateLimited);
    }

    #[test]
    fn missing_last_line_ending_is_accepted() {
        let chunk = r#"data: {"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}"#;
        for end in ["\n\ndata: [DONE]", "\n\ndata: [DON", "\n\n", ""] {
            assert!(read(SERVER, &format!("{chunk}{end}")).is_ok(), "{end:?}");
        }
        assert_eq!(read(SERVER, &chunk[..chunk.len() - 1]).unwrap_err().kind, ErrorKind::Truncated);
        let line = r#"{"message":{"content":"hi"},"done":true}"#;
        assert!(read(Protocol::Ollama, line).is_ok());
        assert_eq!(read(Protocol::Ollama, &line[..20]).unwrap_err().kind, ErrorKind::Truncated);
    }

    /// One stream for each protocol, which ends with the finish reason. No end marker follows.
    const FINISHED: [(Protocol, &str); 5] = [
        (
            SERVER,
            concat!(
                "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"\"}]}\n\n",
                "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
            ),
        ),
        (
            Protocol::Anthropic,
            concat!(
                "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":3}}}\n\n",
                "data: {\"type\":\"content_block_start\",\"content_block\":{\"type\":\"text\",\"text\":\"hi\"}}\n\n",
                "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n",
            ),
        ),
        (
            Protocol::Gemini,
            concat!(
                "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"hi\"}]}}]}\n\n",
                "data: {\"candidates\":[{\"finishReason\":\"STOP\"}]}\n\n",
            ),
        ),
        (
            Protocol::Ollama,
            "{\"message\":{\"content\":\"hi\"}}\n{\"done\":true,\"done_reason\":\"stop\"}\n",
        ),
        (
            Protocol::OpenAiResponses,
            concat!(
                "data: {\"type\":\"response.output_text.delta\",\"delta\":\"hi\"}\n\n",
                "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"output\":",
                "[{\"type\":\"message\",\"content\":[{\"type\":\"output_text\",\"text\":\"hi\"}]}]}}\n\n",
            ),
        ),
    ];

    #[test]
    fn a_stream_is_complete_once_its_finish_reason_has_arrived() {
        for (protocol, body) in FINISHED {
            assert_eq!(read(protocol, body).unwrap().0.content, [Part::text("hi")], "{protocol:?}");
            // The event with the finish reason is complete without the line ending after it.
            let end = body.trim_end().len();
            for cut in 1..end {
                let error = read(protocol, &body[..cut]).unwrap_err();
                assert_eq!(error.kind, ErrorKind::Truncated, "{protocol:?}: cut at {cut}");
            }
        }
    }

    #[test]
    fn content_after_a_finish_reason_makes_the_stream_incomplete_again() {
        let chunk = |delta: &str, reason: &str| {
            format!("data: {{\"choices\":[{{\"delta\":{delta},\"finish_reason\":{reason}}}]}}\n\n")
        };
        let early = chunk("{}", "\"stop\"") + &chunk("{\"content\":\"hi\"}", "null");
        assert_eq!(read(SERVER, &early).unwrap_err().kind, ErrorKind::Truncated);
        assert!(read(SERVER, &(early + "data: [DONE]\n\n")).is_ok());
    }

    #[test]
    fn errors_contain_the_token_counts_that_arrived_before_them() {
        let usage = [
            (SERVER, r#"data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#),
            (
                Protocol::Anthropic,
                r#"data: {"type":"message_start","message":{"usage":{"input_tokens":3,"output_tokens":2}}}"#,
            ),
            (
                Protocol::Gemini,
                r#"data: {"candidates":[],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":2}}"#,
            ),
        ];
        let ends = [
            ("", ErrorKind::Truncated),
            ("data: {", ErrorKind::Truncated),
            ("data: nonsense\n\n", ErrorKind::Malformed),
            (
                "data: {\"type\":\"error\",\"error\":{\"message\":\"x\",\"code\":429}}\n\n",
                ErrorKind::RateLimited,
            ),
        ];
        for (protocol, usage) in usage {
            for (end, kind) in ends {
                let error = read(protocol, &format!("{usage}\n\n{end}")).unwrap_err();
                let counts = error.usage.map(|it| (it.input, it.output));
                assert_eq!((error.kind, counts), (kind, Some((3, 2))), "{protocol:?}: {end}");
            }
        }
        let failed = r#"data: {"type":"response.failed","response":{"error":{"code":"server_error","message":"x"},"usage":{"input_tokens":3,"output_tokens":2}}}"#;
        let error = read(Protocol::OpenAiResponses, &format!("{failed}\n\n")).unwrap_err();
        assert_eq!(error.usage.map(|it| (it.input, it.output)), Some((3, 2)));
    }

    #[test]
    fn invalid_and_oversized_events_are_errors() {
        assert_eq!(read(SERVER, "data: nonsense\n\n").unwrap_err().kind, ErrorKind::Malformed);
        let long = format!("data: {}", "x".repeat(2000));
        assert_eq!(read(SERVER, &long).unwrap_err().kind, ErrorKind::ResponseTooLarge);
        assert_eq!(read(SERVER, "").unwrap_err().kind, ErrorKind::Truncated);
        assert_eq!(read(SERVER, ": waiting\n\n").unwrap_err().kind, ErrorKind::Truncated);
        assert_eq!(read(SERVER, "event: mess").unwrap_err().kind, ErrorKind::Truncated);
        assert_eq!(read(SERVER, "dat").unwrap_err().kind, ErrorKind::Truncated);
        let error = read(SERVER, "<html>\n<p>Log in</p>\n").unwrap_err();
        assert_eq!(error.kind, ErrorKind::Malformed);
        assert!(error.message.contains(r#"starts with "<html>\n<p>Log in</p>""#), "{error:?}");
    }

    #[test]
    fn events_after_the_end_are_ignored() {
        let body = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\ndata: oops\n\n";
        assert!(read(SERVER, body).is_ok());
    }
}
