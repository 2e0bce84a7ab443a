//! Tests the codecs with recorded HTTP interactions.
//!
//! The tests accept any recordings in the same format and do not depend on file names. The recordings of real providers
//! are not in the repository; `LLM_CASSETTES` specifies their directory. A few small hand-written recordings are always
//! used.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use self::recording::Recording;
use crate::{
    ErrorKind, Finish, Listener, Part, Piece,
    codec::{
        CallError, DecodedResponse, Protocol, Quirks, StreamReader, decode_error,
        framer::{EventFramer, Framing},
    },
};

mod neutral;
mod recording;
mod shape;

/// Maximum size of an event; larger than any event in any recording.
const MAX_EVENT: usize = 16 << 20;

/// Returns the recordings of endpoints that generate text, without those that have an error status.
fn generated() -> impl Iterator<Item = (&'static Recording, Protocol)> {
    let recordings = recording::all().iter().filter(|it| it.is_success());
    recordings.filter_map(|it| Some((it, it.protocol()?)))
}

#[test]
fn cassette_responses_decode() {
    let problems =
        generated().filter_map(|(recording, protocol)| {
            match StreamOutcome::of_recording(recording, protocol).response {
                Ok(answer) => response_problem(recording, &answer),
                Err(error) => error_problem(recording, &error),
            }
        });
    let wrong: Vec<String> = problems.collect();
    assert!(wrong.is_empty(), "{} responses are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn cassette_own_responses_match_snapshot() {
    let mut text = String::new();
    for recording in recording::own().iter().filter(|it| it.is_success()) {
        let protocol =
            recording.protocol().expect("our own recordings are of endpoints that generate text");
        let outcome = StreamOutcome::of_recording(recording, protocol);
        writeln!(text, "{}: {outcome:#?}", recording.file).unwrap();
    }
    insta::assert_snapshot!(text);
}

#[test]
fn cassette_streams_decode_however_they_are_split() {
    for (recording, protocol) in generated().filter(|it| it.0.is_stream()) {
        let body = recording.body.as_bytes();
        check_framing(recording, protocol);
        let whole = StreamOutcome::of(protocol, [body]);
        whole.check_pieces(recording);
        assert_eq!(
            StreamOutcome::of(protocol, body.chunks(1)),
            whole,
            "{}: byte by byte",
            recording.file
        );
        for cut in spread(body.len(), n_full_reads(body.len())) {
            let (begin, end) = body.split_at(cut);
            assert_eq!(
                StreamOutcome::of(protocol, [begin, end]),
                whole,
                "{}: cut at {cut}",
                recording.file
            );
        }
    }
}

#[test]
fn cassette_truncated_streams_are_errors_or_complete() {
    for (recording, protocol) in generated().filter(|it| it.0.is_stream()) {
        let end = end_of_response(recording);
        let whole = StreamOutcome::of(protocol, [recording.body.as_bytes()]).response;
        let is_answer = whole.is_ok();
        let n = n_full_reads(end);
        let at_the_end = (end.saturating_sub(n)..end).rev();
        for cut in at_the_end.chain(spread(end, n)) {
            let outcome = StreamOutcome::of(protocol, [&recording.body.as_bytes()[..cut]]);
            let error = match (outcome.response, &whole) {
                // The finish reason has arrived, so only token counts or the end marker are missing.
                (Ok(cut), Ok(whole)) => {
                    let same = (&cut.content, &cut.finish) == (&whole.content, &whole.finish);
                    assert!(same, "{}: cut at {cut:?}", recording.file);
                    continue;
                }
                // Without token counts, it is not known that the tokens were used for reasoning.
                (Ok(cut), Err(whole)) if whole.kind == ErrorKind::ReasoningOnly => {
                    let is_empty = (cut.content.is_empty(), cut.finish) == (true, Finish::Length);
                    assert!(is_empty, "{}", recording.file);
                    continue;
                }
                (response, _) => response.expect_err(&recording.file),
            };
            if is_answer {
                assert_eq!(
                    error.kind,
                    ErrorKind::Truncated,
                    "{}: cut at {cut}: {error:?}",
                    recording.file
                );
            }
        }
    }
}

#[test]
fn cassette_errors_decode() {
    for recording in recording::all().iter().filter(|it| it.status >= 400) {
        let error = decode_error(recording.status, &recording.headers, recording.body.as_bytes());
        let fits = kinds_of(recording.status).contains(&error.kind);
        assert!(fits, "{}: status {}: {error:?}", recording.file, recording.status);
        assert!(!error.message.is_empty() && error.message.len() < 4000, "{}", recording.file);
    }
}

#[test]
fn cassette_requests_match_recorded_ones() {
    let mut expressible = BTreeMap::new();
    let mut differences = Vec::new();
    for (recording, protocol) in generated() {
        let theirs = serde_json::from_str(&recording.request_body)
            .unwrap_or_else(|error| panic!("{}: {error}", recording.file));
        let expressible = expressible
            .entry(format!("{protocol:?}"))
            .or_insert_with(|| shape::expressible(protocol));
        let found = shape::compare(recording, protocol, expressible, theirs);
        differences.extend(found.iter().map(|it| format!("{}: {it}", recording.file)));
    }
    assert!(
        differences.is_empty(),
        "{} differences:\n{}",
        differences.len(),
        differences.join("\n")
    );
}

/// The JSON paths that our requests can contain must match a snapshot. Any other path in a recorded request counts as
/// unsupported, so without the snapshot, a codec that stops writing a path would go unnoticed.
#[test]
fn cassette_request_paths_match_snapshot() {
    let protocols = [
        Protocol::OpenAiChat(Quirks::OPENAI),
        Protocol::OpenAiChat(Quirks::GROQ),
        Protocol::OpenAiChat(Quirks::OPENROUTER),
        Protocol::OpenAiChat(Quirks::SERVER),
        Protocol::OpenAiResponses,
        Protocol::Anthropic,
        Protocol::Gemini,
        Protocol::Ollama,
    ];
    let mut text = String::new();
    for protocol in protocols {
        writeln!(text, "{protocol:?}").unwrap();
        // Paths inside schemas are skipped, because the contents of schemas come from the caller.
        for path in shape::expressible(protocol).iter().filter(|it| !it.contains("/properties")) {
            writeln!(text, "  {path}").unwrap();
        }
    }
    insta::assert_snapshot!(text);
}

/// The pieces of a streamed response, and the response itself.
#[derive(Debug, PartialEq)]
struct StreamOutcome {
    pieces: Vec<Piece>,
    response: Result<DecodedResponse, CallError>,
}

impl StreamOutcome {
    fn of_recording(recording: &Recording, protocol: Protocol) -> Self {
        let body = recording.body.as_bytes();
        match recording.is_stream() {
            true => Self::of(protocol, [body]),
            false => Self { pieces: Vec::new(), response: protocol.decode(body) },
        }
    }

    fn of<'b>(protocol: Protocol, body: impl IntoIterator<Item = &'b [u8]>) -> Self {
        let mut pieces = Vec::new();
        let mut on_piece = |piece| pieces.push(piece);
        let response = read(protocol, body, &mut Listener::new(&mut on_piece));
        Self { pieces, response }
    }

    /// Checks that the concatenated pieces are equal to the response.
    #[track_caller]
    fn check_pieces(&self, recording: &Recording) {
        let Ok(answer) = &self.response else { return };
        let mut sent = (String::new(), Vec::new());
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => sent.0.push_str(text),
                Piece::ToolCall(call) => sent.1.push(Part::ToolCall(call.clone())),
                Piece::InvalidToolCall(call) => sent.1.push(Part::InvalidToolCall(call.clone())),
                Piece::Reasoning(_) => {}
                Piece::Restart => panic!("{}: no call is retried here", recording.file),
            }
        }
        let mut whole = (String::new(), Vec::new());
        for part in &answer.content {
            match part {
                Part::Text { text } => whole.0.push_str(text),
                Part::ToolCall(_) | Part::InvalidToolCall(_) => whole.1.push(part.clone()),
                Part::Reasoning { .. } | Part::Media(_) | Part::ToolResult { .. } => {}
            }
        }
        assert_eq!(sent, whole, "{}: pieces and response differ", recording.file);
    }
}

fn read<'b>(
    protocol: Protocol,
    body: impl IntoIterator<Item = &'b [u8]>,
    listener: &mut Listener<'_>,
) -> Result<DecodedResponse, CallError> {
    let mut reader = StreamReader::new(protocol, MAX_EVENT);
    for bytes in body {
        reader.push(bytes, listener)?;
        if reader.is_done() {
            break;
        }
    }
    reader.finish(listener)
}

/// Checks that the framer yields the same events wherever the bytes are split. For each split, only the event that
/// contains the split is read, because the other events are not affected. Long events are split at every byte near
/// their ends, and at intervals in the middle. The nightly run splits them at every byte.
fn check_framing(recording: &Recording, protocol: Protocol) {
    let body = recording.body.as_bytes();
    let events = |pieces: &[&[u8]]| {
        let mut framer = EventFramer::new(protocol.framing(), MAX_EVENT);
        let mut events: Vec<_> = pieces.iter().flat_map(|it| framer.push(it).unwrap()).collect();
        events.extend(framer.finish());
        events
    };
    let separator = match protocol.framing() {
        Framing::Lines => "\n",
        Framing::Sse if recording.body.contains("\r\n\r\n") => "\r\n\r\n",
        Framing::Sse => "\n\n",
    };
    let texts: BTreeSet<_> = recording.body.split_inclusive(separator).map(str::as_bytes).collect();
    for text in texts {
        let whole = events(&[text]);
        let step = if test_support::is_nightly() { 1 } else { text.len() / 300 + 1 };
        let cuts = (0..text.len()).filter(|it| it % step == 0 || *it < 20 || it + 20 > text.len());
        for cut in cuts {
            assert_eq!(events(&[&text[..cut], &text[cut..]]), whole, "{}: {cut}", recording.file);
        }
    }
    assert_eq!(events(&body.chunks(1).collect::<Vec<_>>()), events(&[body]), "{}", recording.file);
}

/// Returns how often to read a whole body with different splits. Short bodies are read often and long bodies a few
/// times, so that all of them take about the same time.
fn n_full_reads(len: usize) -> usize {
    (60_000 / len.max(1)).clamp(4, 100)
}

/// Returns the position in the body at which the response is complete. In the body, only line endings and sometimes a
/// redundant end marker follow this position.
fn end_of_response(recording: &Recording) -> usize {
    let body = recording.body.trim_end();
    if recording.path.ends_with("/responses") {
        return body.trim_end_matches("data: [DONE]").trim_end().len();
    }
    body.len()
}

/// Returns `n` offsets that are evenly spread over the range from 0 to `len`.
fn spread(len: usize, n: usize) -> impl Iterator<Item = usize> {
    (0..n).map(move |it| len * it / n)
}

fn response_problem(recording: &Recording, answer: &DecodedResponse) -> Option<String> {
    let DecodedResponse { content, usage, .. } = answer;
    let has_calls = content.iter().any(|it| matches!(it, Part::ToolCall(_)));
    let is_priced = recording.provider == "openrouter" && recording.path.ends_with("/completions");
    let Some(usage) = usage else { return Some("no usage".to_owned()) };
    let wrong =
        if usage.cached + usage.cache_written > usage.input || usage.reasoning > usage.output {
            "parts of the usage are larger than the total"
        } else if total(&recording.body).is_some_and(|it| it != usage.input + usage.output) {
            "input and output do not add up to the total"
        } else if answer.model.is_none() {
            "no model"
        } else if answer.finish == Finish::ToolCalls && !has_calls {
            "no tool call"
        } else if is_priced && answer.cost.is_none() {
            "no cost"
        } else {
            return None;
        };
    Some(format!("{}: {wrong}: {answer:?}", recording.file))
}

/// Returns the last total token count in a body, if the provider reports one.
fn total(body: &str) -> Option<u64> {
    let names = ["\"total_tokens\":", "\"totalTokenCount\":"];
    let (_, rest) = names.iter().find_map(|it| body.rsplit_once(it))?;
    let digits = rest.trim_start().split(|it: char| !it.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// Checks an error that was decoded from a response with a success status. Returns a description of the problem unless
/// the body explains the error.
fn error_problem(recording: &Recording, error: &CallError) -> Option<String> {
    let signs: &[&str] = match error.kind {
        ErrorKind::Refused => &[
            r#""refusal":""#, r#""type":"refusal""#, r#"stop_reason":"refusal""#,
            r#"finish_reason":"content_filter""#, r#""reason":"content_filter""#, r#"SAFETY""#,
            r#""blockReason":""#, r#"PROHIBITED_CONTENT""#, r#""finishReason":"RECITATION""#,
        ],
        ErrorKind::ReasoningOnly => &[
            r#"finish_reason":"length""#, r#"done_reason":"length""#,
            r#"stop_reason":"max_tokens""#, r#"finishReason":"MAX_TOKENS""#,
            r#""reason":"max_output_tokens""#,
        ],
        ErrorKind::Malformed => &["MALFORMED_FUNCTION_CALL"],
        ErrorKind::Truncated => &[],
        _ => &[r#""error":{"#],
    };
    let body = recording.body.replace("\": ", "\":");
    let is_said = signs.iter().any(|it| body.contains(it));
    (!is_said).then(|| format!("{}: {error:?}", recording.file))
}

/// Returns the error kinds that a response with this status may be mapped to.
fn kinds_of(status: u16) -> &'static [ErrorKind] {
    use ErrorKind::{
        Auth, BadRequest, NotFound, Overloaded, QuotaExhausted, RateLimited, Refused,
        RequestTooLong,
    };
    match status {
        400 => &[BadRequest, NotFound, RequestTooLong, QuotaExhausted, Refused, Auth],
        401 => &[Auth],
        402 => &[QuotaExhausted, RateLimited],
        403 => &[Auth, Refused, QuotaExhausted],
        404 => &[NotFound],
        413 => &[RequestTooLong],
        429 => &[RateLimited, QuotaExhausted],
        501 => &[BadRequest],
        408 | 409 | 498 | 499 | 500.. => &[Overloaded, RequestTooLong],
        _ => &[BadRequest, Refused, RequestTooLong],
    }
}
