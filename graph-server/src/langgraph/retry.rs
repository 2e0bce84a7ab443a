//! Retries operations while a database or another process cannot be reached.

use std::{future::Future, pin::pin, time::Duration};

use tokio::time::sleep;

/// Delay before another attempt.
pub(super) const RETRY_DELAY: Duration = Duration::from_millis(500);

/// Calls `operation` until it succeeds. Returns its error if `should_retry` rejects the error, or if `stopped`
/// completes before the next attempt. An attempt that has started is never stopped.
pub(super) async fn retry<T, E, Attempt: Future<Output = Result<T, E>>>(
    operation: impl Fn() -> Attempt,
    should_retry: impl Fn(&E) -> bool,
    stopped: impl Future<Output = ()>,
) -> Result<T, E> {
    let mut stopped = pin!(stopped);
    loop {
        match operation().await {
            Err(error) if should_retry(&error) => {
                tokio::select! {
                    () = sleep(RETRY_DELAY) => {}
                    () = stopped.as_mut() => return Err(error),
                }
            }
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        cell::Cell,
        future::{pending, ready},
    };

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn temporary_failures_are_retried() {
        let attempts = Cell::new(0);
        let operation = || {
            attempts.set(attempts.get() + 1);
            ready(if attempts.get() < 3 { Err("busy") } else { Ok(attempts.get()) })
        };
        assert_eq!(retry(operation, |it| *it == "busy", pending()).await, Ok(3));
    }

    #[tokio::test(start_paused = true)]
    async fn permanent_failures_and_stop_requests_end_the_retries() {
        let attempts = Cell::new(0);
        let operation = || {
            attempts.set(attempts.get() + 1);
            ready(Err::<(), _>("busy"))
        };
        assert_eq!(retry(operation, |_| false, pending()).await, Err("busy"));
        assert_eq!(retry(operation, |_| true, ready(())).await, Err("busy"));
        assert_eq!(attempts.get(), 2);
    }
}
