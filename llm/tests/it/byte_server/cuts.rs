//! Tests with responses that are truncated or stall after every possible number of bytes. The result must be an error
//! or the complete response, never a partial one.

use std::time::Duration;

use llm::{Error, ErrorKind, Finish, Llm, Response, Timeouts};
use tokio::task::JoinSet;

use super::{
    ByteServer, LONG_TIMEOUTS, Move,
    answers::{TEXT, WIRES, Wire, hello, write},
};

/// Number of concurrent calls.
const CONCURRENCY: usize = 128;

#[derive(Clone, Copy, Debug, PartialEq)]
enum CallMode {
    Whole,
    Streamed,
}

const STREAM: Case = Case {
    mode: CallMode::Streamed,
    answer: Wire::chunked,
    then: &[Move::Close],
    timeouts: LONG_TIMEOUTS,
    is_expected: is_broken,
};

/// Behaviour of a server after it has sent part of its response, and the expected error.
#[derive(Clone, Copy, Debug)]
struct Case {
    mode: CallMode,
    /// Function that returns the bytes of the complete response.
    answer: fn(&Wire) -> Vec<u8>,
    /// Actions of the server after it has sent part of the response.
    then: &'static [Move],
    timeouts: Timeouts,
    is_expected: fn(&Error) -> bool,
}

impl Case {
    /// Truncates the response at every possible byte offset, and calls every provider once per truncated response.
    async fn check(self) {
        for wire in &WIRES {
            let n_bytes = (self.answer)(wire).len();
            for lengths in (0..=n_bytes).collect::<Vec<_>>().chunks(CONCURRENCY) {
                let calls = lengths.iter().map(|&length| self.check_one(wire, length));
                calls.collect::<JoinSet<()>>().join_all().await;
            }
        }
    }

    /// Checks the result of a call if the server sends only the first `length` bytes.
    async fn check_one(self, wire: &'static Wire, length: usize) {
        let bytes = (self.answer)(wire);
        let mut moves = write(&bytes[..length]);
        moves.extend_from_slice(self.then);
        let server = ByteServer::start([moves]).await;
        let llm = wire.provider(&server).timeouts(self.timeouts).build().unwrap();
        let place = format!("{} {:?}: {length} of {} bytes", wire.provider, self.mode, bytes.len());
        match call(&llm, self.mode).await {
            Ok(response) => {
                check_content(&response, &place);
                let usage = response.usage.map(|it| (it.input, it.output));
                // A stream may end between the finish reason and the token counts.
                let may_lack_usage = length < bytes.len() && self.mode == CallMode::Streamed;
                assert!(
                    usage == Some((3, 2)) || (usage.is_none() && may_lack_usage),
                    "{place}: {usage:?}"
                );
            }
            Err(error) => {
                assert!((self.is_expected)(&error), "{place}: {error}");
                // A complete response may fail only in the tests with a stalled server, in which `then` is empty,
                // because a slow machine can cause a timeout.
                assert!(length < bytes.len() || self.then.is_empty(), "{place}: {error}");
            }
        }
    }
}

async fn call(llm: &Llm, mode: CallMode) -> Result<Response, Error> {
    match mode {
        CallMode::Whole => llm.generate(hello()).await,
        CallMode::Streamed => llm.stream(hello()).response().await,
    }
}

#[track_caller]
fn check_content(response: &Response, place: &str) {
    assert_eq!(response.text(), TEXT, "{place}");
    assert_eq!(response.finish, Finish::Stop, "{place}");
}

/// Returns whether the error means that the connection broke, no matter whether before or after the response headers.
fn is_broken(error: &Error) -> bool {
    matches!(error.kind, ErrorKind::Network | ErrorKind::Truncated)
}

fn is_late(error: &Error) -> bool {
    matches!(error.kind, ErrorKind::Timeout(_))
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_stream_is_an_error_or_complete() {
    STREAM.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_stream_without_length_is_an_error_or_complete() {
    Case { answer: Wire::unbounded, ..STREAM }.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reset_stream_is_an_error_or_complete() {
    Case { then: &[Move::Reset], ..STREAM }.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_response_is_an_error_or_complete() {
    Case { mode: CallMode::Whole, answer: Wire::plain, ..STREAM }.check().await;
}

/// Some servers send neither an end marker nor the end of the body.
#[tokio::test(flavor = "multi_thread")]
async fn stream_that_stalls_after_its_finish_reason_is_complete() {
    for wire in &WIRES {
        for then in [&[][..], &[Move::Close]] {
            let end = wire.stream.find("event: message_stop").or(wire.stream.find("data: [DONE]"));
            let body = &wire.stream.as_bytes()[..end.unwrap_or(wire.stream.len())];
            let head = wire.head("Transfer-Encoding: chunked");
            let chunk = format!("{:x}\r\n", body.len()).into_bytes();
            let mut moves = write([&head[..], &chunk, body, b"\r\n"].concat());
            moves.extend_from_slice(then);
            let server = ByteServer::start([moves]).await;
            let timeouts = Timeouts { idle: Duration::from_millis(100), ..LONG_TIMEOUTS };
            let llm = wire.provider(&server).timeouts(timeouts).build().unwrap();
            let response = llm.stream(hello()).response().await.unwrap();
            check_content(&response, wire.provider);
            assert!(response.usage.is_some(), "{}", wire.provider);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stalled_stream_times_out_or_is_complete() {
    let short = Duration::from_millis(100);
    let timeouts = Timeouts { first_byte: short, idle: short, ..LONG_TIMEOUTS };
    Case { then: &[], timeouts, is_expected: is_late, ..STREAM }.check().await;
}
