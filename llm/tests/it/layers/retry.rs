//! Tests of retries.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use llm::{Backoff, Error, ErrorKind, Phase, Piece, Response};
use tokio::time::Instant;

use super::{answer, error, fake, rate_limited};

const SECOND: Duration = Duration::from_secs(1);

/// Returns a function that returns these numbers one after the other, and then zeros.
fn draws(numbers: &'static [f64]) -> impl Fn() -> f64 + Send + Sync + 'static {
    let next = AtomicUsize::new(0);
    move || numbers.get(next.fetch_add(1, Ordering::Relaxed)).copied().unwrap_or(0.0)
}

/// Calls a model that fails with these errors and then answers. Returns the outcome, and the times of the calls in
/// milliseconds.
async fn called(errors: Vec<Error>, backoff: Backoff) -> (Result<Response, Error>, Vec<u128>) {
    let times = Arc::new(Mutex::new(Vec::new()));
    let (start, log) = (Instant::now(), times.clone());
    let (llm, _) = fake(move |number, _| {
        log.lock().unwrap().push(start.elapsed().as_millis());
        let outcome = errors.get(number).cloned().map_or_else(|| Ok(answer("here")), Err);
        async { outcome }
    });
    let outcome = llm.retry(backoff).generate("?").await;
    let times = times.lock().unwrap().clone();
    (outcome, times)
}

#[tokio::test(start_paused = true)]
async fn wait_doubles_with_each_attempt() {
    let (outcome, times) =
        called(vec![error(ErrorKind::Overloaded); 3], Backoff::default().random(draws(&[]))).await;
    assert_eq!(outcome.unwrap().text(), "here");
    assert_eq!(times, [0, 1_000, 3_000, 7_000]);
}

#[tokio::test(start_paused = true)]
async fn jitter_only_increases_the_wait() {
    let backoff = Backoff::default().random(draws(&[1.0, 0.5, 7.0]));
    let (_, times) = called(vec![error(ErrorKind::Network); 3], backoff).await;
    assert_eq!(times, [0, 1_250, 1_250 + 2_250, 1_250 + 2_250 + 5_000]);
}

#[tokio::test(start_paused = true)]
async fn default_jitter_is_at_most_a_quarter() {
    for _ in 0..50 {
        let (_, times) = called(vec![error(ErrorKind::Network)], Backoff::default()).await;
        assert!((1_000..=1_251).contains(&times[1]), "{times:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn three_retries_are_four_attempts() {
    let (outcome, times) = called(vec![error(ErrorKind::Truncated); 9], Backoff::default()).await;
    let error = outcome.unwrap_err();
    assert_eq!((error.kind, times.len()), (ErrorKind::Truncated, 4));
    assert_eq!(
        error.message,
        "as the test says (given up after 4 attempts; try again later, or allow more retries)"
    );
}

#[tokio::test(start_paused = true)]
async fn requested_wait_takes_precedence() {
    let errors = vec![rate_limited(5 * SECOND), error(ErrorKind::Overloaded)];
    let (_, times) = called(errors, Backoff::default().random(draws(&[]))).await;
    assert_eq!(times, [0, 5_000, 7_000]);
}

#[tokio::test(start_paused = true)]
async fn requested_wait_of_zero_is_ignored() {
    let errors = vec![rate_limited(Duration::ZERO); 2];
    let (_, times) = called(errors, Backoff::default().random(draws(&[]))).await;
    assert_eq!(times, [0, 1_000, 3_000]);
}

#[tokio::test(start_paused = true)]
async fn longer_requested_wait_fails() {
    let backoff = Backoff::default().max_wait(30 * SECOND).random(draws(&[]));
    let (outcome, times) = called(vec![rate_limited(31 * SECOND)], backoff.clone()).await;
    let error = outcome.unwrap_err();
    assert_eq!((error.retry_after, times.len()), (Some(31 * SECOND), 1));
    assert_eq!(
        error.message,
        "as the test says (given up after 1 attempt; the provider asks to wait 31 s, but `max_wait` is 30 s)"
    );
    let (outcome, times) = called(vec![rate_limited(30 * SECOND)], backoff).await;
    assert!(outcome.is_ok());
    assert_eq!(times, [0, 30_000]);
}

#[tokio::test(start_paused = true)]
async fn waits_without_a_request_of_the_provider_are_limited() {
    let backoff = Backoff::new(4).first_wait(20 * SECOND).random(draws(&[]));
    let (_, times) = called(vec![super::error(ErrorKind::Timeout(Phase::Idle)); 4], backoff).await;
    assert_eq!(times, [0, 20_000, 60_000, 120_000, 180_000]);
    let forever = Backoff::new(u32::MAX).first_wait(Duration::ZERO).max_wait(Duration::MAX);
    let (outcome, times) = called(vec![super::error(ErrorKind::Network); 40], forever).await;
    assert!(outcome.is_ok());
    assert_eq!(times.len(), 41);
}

#[tokio::test(start_paused = true)]
async fn only_retryable_errors_are_retried() {
    let cases = [
        (ErrorKind::Auth, None, 1),
        (ErrorKind::QuotaExhausted, None, 1),
        (ErrorKind::RequestTooLong, None, 1),
        (ErrorKind::Budget, None, 1),
        (ErrorKind::NotRecorded, None, 1),
        (ErrorKind::Malformed, None, 2),
        (ErrorKind::Timeout(Phase::FirstByte), None, 2),
        (ErrorKind::BadRequest, Some(true), 2),
        (ErrorKind::RateLimited, Some(false), 1),
    ];
    for (kind, should_retry, attempts) in cases {
        let error = Error { should_retry, ..error(kind) };
        let (_, times) = called(vec![error], Backoff::default()).await;
        assert_eq!(times.len(), attempts, "{kind:?}");
    }
    let (outcome, _) = called(vec![error(ErrorKind::Auth)], Backoff::default()).await;
    assert_eq!(outcome.unwrap_err().message, "as the test says (given up after 1 attempt)");
}

#[tokio::test(start_paused = true)]
async fn restart_is_sent_before_a_retry() {
    let (llm, _) = fake(|number, _| async move {
        if number == 0 { Err(error(ErrorKind::Truncated)) } else { Ok(answer("here")) }
    });
    let mut stream = llm.retry(Backoff::default()).stream("?");
    let mut pieces = Vec::new();
    while let Some(piece) = stream.next().await {
        pieces.push(piece);
    }
    let text = |it: &str| Piece::Text(it.to_owned());
    assert_eq!(pieces, [text("0 "), Piece::Restart, text("1 "), text("here")]);
}
