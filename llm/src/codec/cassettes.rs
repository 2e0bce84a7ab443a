//! Recordings of real providers, run through the codecs.
//!
//! Every test takes any recording of the same form, also of files that nobody here has seen: nothing below
//! knows a file by its name. They lie outside the repository (`LLM_CASSETTES` names their folder); some small
//! ones of our own are always run.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use super::{DecodedResponse, Codec, CallError, EventFramer, Framing, StreamReader};
use crate::{ErrorKind, Finish, Listener, Part, Piece};

use self::recording::Recording;

mod neutral;
mod recording;
mod shape;

/// Larger than any event of any recording.
const MAX_EVENT: usize = 16 << 20;

#[test]
fn cassette_answers_decode() {
    let mut tally = Tally::default();
    let mut wrong = Vec::new();
    for recording in recording::all().iter().filter(|it| it.is_success()) {
        let Some(codec) = recording.codec() else { continue };
        let answer = match recording.is_stream() {
            true => StreamOutcome::of(&*codec, [recording.body.as_bytes()]).answer,
            false => codec.decode(recording.body.as_bytes()),
        };
        match answer {
            Ok(answer) => {
                wrong.extend(wrong_with_answer(recording, &answer));
                tally.count(recording, "decoded");
            }
            Err(error) => {
                wrong.extend(wrong_with_fault(recording, &error));
                tally.count(recording, &format!("{:?}", error.kind));
            }
        }
    }
    tally.print("answers");
    assert!(wrong.is_empty(), "{} answers are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn cassette_own_answers_are_these() {
    let mut text = String::new();
    for recording in recording::own().iter().filter(|it| it.is_success()) {
        let codec = recording.codec().expect("all of them generate");
        let outcome = match recording.is_stream() {
            true => StreamOutcome::of(&*codec, [recording.body.as_bytes()]),
            false => StreamOutcome { pieces: Vec::new(), answer: codec.decode(recording.body.as_bytes()) },
        };
        writeln!(text, "{}: {outcome:#?}", recording.file).unwrap();
    }
    insta::assert_snapshot!(text);
}

#[test]
fn cassette_streams_split_anywhere() {
    let mut tally = Tally::default();
    for recording in recording::all().iter().filter(|it| it.is_success() && it.is_stream()) {
        let Some(codec) = recording.codec() else { continue };
        let body = recording.body.as_bytes();
        let n_cuts = check_frames(recording, &*codec);
        let whole = StreamOutcome::of(&*codec, [body]);
        whole.check_pieces(recording);
        assert_eq!(StreamOutcome::of(&*codec, body.chunks(1)), whole, "{}: byte by byte", recording.file);
        let n_full_reads = n_full_reads(body.len());
        for cut in spread(body.len(), n_full_reads) {
            let (begin, end) = body.split_at(cut);
            assert_eq!(StreamOutcome::of(&*codec, [begin, end]), whole, "{}: cut at {cut}", recording.file);
        }
        tally.count(recording, "streams");
        tally.add(recording, "cuts of an event", n_cuts);
        tally.add(recording, "cuts of an answer", n_full_reads);
    }
    tally.print("split streams");
}

#[test]
fn cassette_streams_cut_short_are_faults() {
    let mut tally = Tally::default();
    for recording in recording::all().iter().filter(|it| it.is_success() && it.is_stream()) {
        let Some(codec) = recording.codec() else { continue };
        let end = end_of_answer(recording);
        let is_answer = StreamOutcome::of(&*codec, [recording.body.as_bytes()]).answer.is_ok();
        let n = n_full_reads(end);
        let at_the_end = (end.saturating_sub(n)..end).rev();
        for cut in at_the_end.chain(spread(end, n)) {
            let outcome = StreamOutcome::of(&*codec, [&recording.body.as_bytes()[..cut]]);
            let error =
                outcome.answer.expect_err(&format!("{}: cut at {cut} is whole", recording.file));
            if is_answer {
                assert_eq!(
                    error.kind,
                    ErrorKind::Truncated,
                    "{}: cut at {cut}: {error:?}",
                    recording.file
                );
            }
            tally.count(recording, "cuts");
        }
    }
    tally.print("streams cut short");
}

#[test]
fn cassette_errors_decode() {
    let mut tally = Tally::default();
    for recording in recording::all().iter().filter(|it| it.status >= 400) {
        // Endpoints that generate nothing have errors of the same form.
        let codec = recording.codec().unwrap_or_else(super::anthropic);
        let error =
            codec.decode_error(recording.status, &recording.headers, recording.body.as_bytes());
        let fits = kinds_of(recording.status).contains(&error.kind);
        assert!(fits, "{}: status {}: {error:?}", recording.file, recording.status);
        assert!(!error.message.is_empty() && error.message.len() < 4000, "{}", recording.file);
        tally.count(recording, &format!("{} {:?}", recording.status, error.kind));
    }
    tally.print("errors");
}

#[test]
fn cassette_requests_have_the_recorded_shape() {
    let mut tally = Tally::default();
    let mut unsupported = Tally::default();
    let mut expressible = BTreeMap::new();
    let mut differences = Vec::new();
    for recording in recording::all().iter().filter(|it| it.is_success()) {
        let Some(codec) = recording.codec() else { continue };
        let theirs = serde_json::from_str(&recording.request_body)
            .unwrap_or_else(|error| panic!("{}: {error}", recording.file));
        let expressible =
            expressible.entry(format!("{codec:?}")).or_insert_with(|| shape::expressible(&*codec));
        let report = shape::compare(recording, &*codec, expressible, theirs);
        for reason in report.unsupported {
            unsupported.count(recording, &reason);
        }
        differences.extend(report.differences.iter().map(|it| format!("{}: {it}", recording.file)));
        tally.count(recording, "compared");
    }
    tally.print("requests");
    unsupported.print("what our interface cannot say");
    assert!(
        differences.is_empty(),
        "{} differences:\n{}",
        differences.len(),
        differences.join("\n")
    );
}

/// A recorded path that is not among these is counted as one that we cannot say, so that this is what a codec must
/// not lose.
#[test]
fn cassette_places_that_our_requests_have() {
    let codecs = [
        super::openai_chat(super::Quirks::OPENAI),
        super::openai_chat(super::Quirks::GROQ),
        super::openai_chat(super::Quirks::OPENROUTER),
        super::openai_chat(super::Quirks::SERVER),
        super::openai_responses(),
        super::anthropic(),
        super::gemini(),
        super::ollama(),
    ];
    let mut text = String::new();
    for codec in codecs {
        writeln!(text, "{codec:?}").unwrap();
        // The insides of schemas are the caller's.
        for path in shape::expressible(&*codec).iter().filter(|it| !it.contains("/properties")) {
            writeln!(text, "  {path}").unwrap();
        }
    }
    insta::assert_snapshot!(text);
}

#[test]
fn cassette_endpoints_that_generate_nothing() {
    let mut tally = Tally::default();
    for recording in recording::all().iter().filter(|it| it.codec().is_none()) {
        let path = recording.path.rsplit(['/', ':']).find(|it| !it.contains(char::is_numeric));
        tally.count(recording, path.unwrap_or(&recording.path));
    }
    tally.print("not for us");
}

/// What an answer outcome while it came, and what it was.
#[derive(Debug, PartialEq)]
struct StreamOutcome {
    pieces: Vec<Piece>,
    answer: Result<DecodedResponse, CallError>,
}

impl StreamOutcome {
    fn of<'b>(codec: &dyn Codec, body: impl IntoIterator<Item = &'b [u8]>) -> Self {
        let mut pieces = Vec::new();
        let mut on_piece = |piece| pieces.push(piece);
        let answer = read(codec, body, &mut Listener::new(&mut on_piece));
        Self { pieces, answer }
    }

    /// The pieces together are the answer.
    #[track_caller]
    fn check_pieces(&self, recording: &Recording) {
        let Ok(answer) = &self.answer else { return };
        let mut outcome = (String::new(), Vec::new());
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => outcome.0.push_str(text),
                Piece::ToolCall(call) => outcome.1.push(call.clone()),
                Piece::Reasoning(_) => {}
                Piece::Restart => panic!("{}: nothing started over", recording.file),
            }
        }
        let mut whole = (String::new(), Vec::new());
        for part in &answer.content {
            match part {
                Part::Text { text } => whole.0.push_str(text),
                Part::ToolCall(call) => whole.1.push(call.clone()),
                Part::Reasoning { .. } | Part::ToolResult { .. } => {}
            }
        }
        assert_eq!(outcome, whole, "{}: pieces and answer differ", recording.file);
    }
}

fn read<'b>(
    codec: &dyn Codec,
    body: impl IntoIterator<Item = &'b [u8]>,
    listener: &mut Listener<'_>,
) -> Result<DecodedResponse, CallError> {
    let mut reader = StreamReader::new(codec, MAX_EVENT);
    for bytes in body {
        reader.push(bytes, listener)?;
        if reader.is_done() {
            break;
        }
    }
    reader.finish(listener)
}

/// Every cut gives the same events; says how many were made. Of each cut only the event that it falls into is read
/// again, because nothing else is cut. Of long events the ends are cut everywhere, and the middle here and there, or
/// everywhere too in the nightly run.
fn check_frames(recording: &Recording, codec: &dyn Codec) -> usize {
    let is_nightly = std::env::var_os("GRAPH_NIGHTLY").is_some();
    let mut n_cuts = 0;
    let body = recording.body.as_bytes();
    let events = |pieces: &[&[u8]]| {
        let mut framer = EventFramer::new(codec.framing(), MAX_EVENT);
        let mut events: Vec<_> = pieces.iter().flat_map(|it| framer.push(it).unwrap()).collect();
        events.extend(framer.finish());
        events
    };
    let separator = match codec.framing() {
        Framing::Lines => "\n",
        Framing::Sse if recording.body.contains("\r\n\r\n") => "\r\n\r\n",
        Framing::Sse => "\n\n",
    };
    let texts: BTreeSet<_> = recording.body.split_inclusive(separator).map(str::as_bytes).collect();
    for text in texts {
        let whole = events(&[text]);
        let step = if is_nightly { 1 } else { text.len() / 300 + 1 };
        let cuts = (0..text.len()).filter(|it| it % step == 0 || *it < 20 || it + 20 > text.len());
        for cut in cuts {
            assert_eq!(events(&[&text[..cut], &text[cut..]]), whole, "{}: {cut}", recording.file);
            n_cuts += 1;
        }
    }
    assert_eq!(events(&body.chunks(1).collect::<Vec<_>>()), events(&[body]), "{}", recording.file);
    n_cuts
}

/// How often a body is read again as a whole: short ones often, long ones a few times, so that all of them take
/// about the same time.
fn n_full_reads(len: usize) -> usize {
    (60_000 / len.max(1)).clamp(4, 100)
}

/// Where the last byte stands that belongs to the answer: what follows are line ends, and for some a mark that
/// says once more that it is over.
fn end_of_answer(recording: &Recording) -> usize {
    let body = recording.body.trim_end();
    if recording.path.ends_with("/responses") {
        return body.trim_end_matches("data: [DONE]").trim_end().len();
    }
    body.len()
}

/// So many places, evenly spread over a length.
fn spread(len: usize, n: usize) -> impl Iterator<Item = usize> {
    (0..n).map(move |it| len * it / n)
}

fn wrong_with_answer(recording: &Recording, answer: &DecodedResponse) -> Option<String> {
    let DecodedResponse { content, usage, .. } = answer;
    let has_calls = content.iter().any(|it| matches!(it, Part::ToolCall(_)));
    let is_priced = recording.provider == "openrouter" && recording.path.ends_with("/completions");
    let Some(usage) = usage else { return Some("no usage".to_owned()) };
    let wrong =
        if usage.cached + usage.cache_written > usage.input || usage.reasoning > usage.output {
            "parts of the usage are larger than the whole"
        } else if total(&recording.body).is_some_and(|it| it != usage.input + usage.output) {
            "request and answer are not the total"
        } else if answer.model.is_none() {
            "no model"
        } else if answer.finish == Finish::ToolCalls && !has_calls {
            "no call"
        } else if is_priced && answer.cost.is_none() {
            "no cost"
        } else {
            return None;
        };
    Some(format!("{}: {wrong}: {answer:?}", recording.file))
}

/// The last total that a body gives, as far as its provider gives one.
fn total(body: &str) -> Option<u64> {
    let names = ["\"total_tokens\":", "\"totalTokenCount\":"];
    let (_, rest) = names.iter().find_map(|it| body.rsplit_once(it))?;
    let digits = rest.trim_start().split(|it: char| !it.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// A success that is a error all the same says why in its body.
fn wrong_with_fault(recording: &Recording, error: &CallError) -> Option<String> {
    let signs: &[&str] = match error.kind {
        ErrorKind::Refused => &[
            r#""refusal":""#,
            r#""type":"refusal""#,
            r#"stop_reason":"refusal""#,
            r#"finish_reason":"content_filter""#,
            r#""reason":"content_filter""#,
            r#"SAFETY""#,
            r#""blockReason":""#,
            r#"PROHIBITED_CONTENT""#,
            r#""finishReason":"RECITATION""#,
        ],
        ErrorKind::ReasoningOnly => &[
            r#"finish_reason":"length""#,
            r#"done_reason":"length""#,
            r#"stop_reason":"max_tokens""#,
            r#"finishReason":"MAX_TOKENS""#,
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

/// The kinds that an error of a status may have.
fn kinds_of(status: u16) -> &'static [ErrorKind] {
    use ErrorKind::{Auth, BadRequest, NotFound, Overloaded, RateLimited, Refused, QuotaExhausted, RequestTooLong};
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

/// Counts by provider, for a line each.
#[derive(Default)]
struct Tally {
    counts: BTreeMap<String, BTreeMap<String, usize>>,
}

impl Tally {
    fn count(&mut self, recording: &Recording, what: &str) {
        self.add(recording, what, 1);
    }

    fn add(&mut self, recording: &Recording, what: &str, n: usize) {
        let counts = self.counts.entry(recording.provider.clone()).or_default();
        *counts.entry(what.to_owned()).or_default() += n;
    }

    fn print(&self, title: &str) {
        for (provider, counts) in &self.counts {
            let mut line = String::new();
            for (what, n) in counts {
                let separator = if line.is_empty() { "" } else { ", " };
                write!(line, "{separator}{n} {what}").unwrap();
            }
            println!("{title}: {provider}: {line}");
        }
    }
}
