//! Responses that are cut off or stall at every byte: the result is an error or complete, never a partial response.

use std::time::Duration;

use llm::{Error, ErrorKind, Finish, Llm, Response, Timeouts};
use tokio::task::JoinSet;

use super::{
    ByteServer, Move, PATIENT,
    answers::{TEXT, WIRES, Wire, hello, write},
};

/// Number of concurrent calls.
const AT_ONCE: usize = 128;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Asked {
    Whole,
    Streamed,
}

const STREAM: Case = Case {
    asked: Asked::Streamed,
    answer: Wire::chunked,
    then: &[Move::Close],
    timeouts: PATIENT,
    is_expected: is_broken,
};

/// How a server behaves after part of its response, and the expected error.
#[derive(Clone, Copy, Debug)]
struct Case {
    asked: Asked,
    /// Returns the complete response bytes.
    answer: fn(&Wire) -> Vec<u8>,
    /// What the server does after part of the response.
    then: &'static [Move],
    timeouts: Timeouts,
    is_expected: fn(&Error) -> bool,
}

impl Case {
    /// Calls every provider once for every length of the response.
    async fn check(self) {
        for wire in &WIRES {
            let n_bytes = (self.answer)(wire).len();
            for lengths in (0..=n_bytes).collect::<Vec<_>>().chunks(AT_ONCE) {
                let calls = lengths.iter().map(|&length| self.check_one(wire, length));
                calls.collect::<JoinSet<()>>().join_all().await;
            }
        }
    }

    /// Checks the result of the first `length` bytes.
    async fn check_one(self, wire: &'static Wire, length: usize) {
        let bytes = (self.answer)(wire);
        let mut moves = write(&bytes[..length]);
        moves.extend_from_slice(self.then);
        let server = ByteServer::start([moves]).await;
        let llm = wire.provider(&server).timeouts(self.timeouts).build().unwrap();
        let place =
            format!("{} {:?}: {length} of {} bytes", wire.provider, self.asked, bytes.len());
        match ask(&llm, self.asked).await {
            Ok(response) => check_full(&response, &place),
            Err(error) => {
                assert!((self.is_expected)(&error), "{place}: {error}");
                // A slow server may time out even with the complete response, but it cannot cut it off.
                assert!(length < bytes.len() || self.then.is_empty(), "{place}: {error}");
            }
        }
    }
}

async fn ask(llm: &Llm, asked: Asked) -> Result<Response, Error> {
    match asked {
        Asked::Whole => llm.generate(hello()).await,
        Asked::Streamed => llm.stream(hello()).response().await,
    }
}

#[track_caller]
fn check_full(response: &Response, place: &str) {
    assert_eq!(response.text(), TEXT, "{place}");
    assert_eq!(response.finish, Finish::Stop, "{place}");
    assert_eq!((response.usage.unwrap().input, response.usage.unwrap().output), (3, 2), "{place}");
}

/// Broken before or after the response headers.
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
    Case { asked: Asked::Whole, answer: Wire::plain, ..STREAM }.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stalled_stream_times_out_or_is_complete() {
    let short = Duration::from_millis(100);
    let timeouts = Timeouts { first_byte: short, idle: short, ..PATIENT };
    Case { then: &[], timeouts, is_expected: is_late, ..STREAM }.check().await;
}
