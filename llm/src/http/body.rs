//! Reads the response body within time and size limits.

use std::time::{Duration, Instant};

use reqwest::{
    StatusCode,
    header::{HeaderMap, LOCATION},
};
use tokio::time::timeout;

use super::{Limits, Timeouts, errors};
use crate::{
    ErrorKind, Phase,
    codec::{self, CallError},
};

/// Maximum number of bytes to read from an error response. The message is at the beginning, so this suffices.
const ERROR_BYTES: usize = 64 << 10;

/// Maximum time to wait for the end of the body after the response is complete. The connection can be reused only if
/// the body is read to its end. Most servers end it immediately, so a wait means that this machine or the server is
/// busy.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// The body of a response.
#[derive(Debug)]
pub(super) struct Body {
    response: reqwest::Response,
    start: Instant,
    timeouts: Timeouts,
    limits: Limits,
    n_bytes: usize,
}

impl Body {
    /// Wraps the response to a request that was sent at `start`.
    pub(super) fn new(
        response: reqwest::Response,
        start: Instant,
        timeouts: Timeouts,
        limits: Limits,
    ) -> Self {
        Self { response, start, timeouts, limits, n_bytes: 0 }
    }

    pub(super) fn status(&self) -> StatusCode {
        self.response.status()
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// Returns the error that a response with an error status contains.
    pub(super) async fn check_status(&mut self) -> Result<(), CallError> {
        let status = self.status();
        if status.is_redirection() && self.headers().contains_key(LOCATION) {
            return Err(errors::redirected(self.headers()));
        }
        if !status.is_success() {
            let error_body = self.error_body().await;
            return Err(codec::decode_error(status.as_u16(), self.headers(), &error_body));
        }
        Ok(())
    }

    /// Returns the next piece of the body, or `None` if the body is complete.
    pub(super) async fn next(&mut self) -> Result<Option<impl AsRef<[u8]> + use<>>, CallError> {
        let (phase, limit) = self.next_timeout();
        let waited = if phase == Phase::FirstByte { self.start.elapsed() } else { Duration::ZERO };
        let Ok(piece) = timeout(limit.saturating_sub(waited), self.response.chunk()).await else {
            return Err(errors::timed_out(phase, limit));
        };
        let piece = piece.map_err(|error| errors::connection_lost(&error, self.n_bytes))?;
        self.n_bytes += piece.as_ref().map_or(0, |it| it.len());
        self.check_size(self.n_bytes as u64)?;
        Ok(piece)
    }

    /// Lowers the maximum time between two pieces of the body.
    pub(super) fn limit_idle_time(&mut self, limit: Duration) {
        self.timeouts.idle = self.timeouts.idle.min(limit);
    }

    /// Reads the whole body.
    pub(super) async fn read_all(&mut self) -> Result<Vec<u8>, CallError> {
        self.check_size(self.response.content_length().unwrap_or_default())?;
        let mut bytes = Vec::new();
        while let Some(piece) = self.next().await? {
            bytes.extend_from_slice(piece.as_ref());
        }
        Ok(bytes)
    }

    /// Reads the body of an error response up to a limit. If the connection breaks, returns what was read so far.
    async fn error_body(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while let Ok(Some(piece)) = self.next().await {
            bytes.extend_from_slice(piece.as_ref());
            if bytes.len() >= ERROR_BYTES {
                bytes.truncate(ERROR_BYTES);
                break;
            }
        }
        bytes
    }

    /// Reads the rest of the body and discards it, so that the connection can be reused.
    pub(super) async fn drain(&mut self) {
        let rest = async { while let Ok(Some(_)) = self.next().await {} };
        // Ignore a timeout, because dropping the body then closes the connection.
        let _ = timeout(DRAIN_TIMEOUT, rest).await;
    }

    fn check_size(&self, n_bytes: u64) -> Result<(), CallError> {
        let limit = self.limits.body_bytes;
        if n_bytes > limit as u64 {
            let message = format!("the response has more than {limit} bytes");
            return Err(CallError::new(ErrorKind::ResponseTooLarge, message));
        }
        Ok(())
    }

    fn next_timeout(&self) -> (Phase, Duration) {
        if self.n_bytes == 0 {
            (Phase::FirstByte, self.timeouts.first_byte)
        } else {
            (Phase::Idle, self.timeouts.idle)
        }
    }
}
