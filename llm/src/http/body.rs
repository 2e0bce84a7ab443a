//! The body of an answer, read within its limits of time and size.

use std::time::{Duration, Instant};

use reqwest::{StatusCode, header::HeaderMap};
use tokio::time::timeout;

use super::{Limits, Timeouts, words};
use crate::{ErrorKind, Phase, codec::Fault};

/// As much of an error's body is read; what it says stands at its beginning.
const ERROR_BYTES: usize = 64 << 10;

/// A server that is done says so at once. To wait this long for it saves the next call a new connection.
const DRAIN: Duration = Duration::from_millis(100);

/// The body of an answer.
#[derive(Debug)]
pub(super) struct Body {
    response: reqwest::Response,
    start: Instant,
    timeouts: Timeouts,
    limits: Limits,
    n_bytes: usize,
}

impl Body {
    /// The body of the answer to a request that went out at `start`.
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

    /// The next piece; `None` where the body has come to its end as it should.
    pub(super) async fn next(&mut self) -> Result<Option<impl AsRef<[u8]> + use<>>, Fault> {
        let (phase, limit) = self.patience();
        let waited = if phase == Phase::FirstByte { self.start.elapsed() } else { Duration::ZERO };
        let Ok(piece) = timeout(limit.saturating_sub(waited), self.response.chunk()).await else {
            return Err(words::late(phase, limit));
        };
        let piece = piece.map_err(|error| words::broken(&error, self.n_bytes))?;
        self.n_bytes += piece.as_ref().map_or(0, |it| it.len());
        self.check_size(self.n_bytes as u64)?;
        Ok(piece)
    }

    /// All of it.
    pub(super) async fn whole(&mut self) -> Result<Vec<u8>, Fault> {
        self.check_size(self.response.content_length().unwrap_or_default())?;
        let mut bytes = Vec::new();
        while let Some(piece) = self.next().await? {
            bytes.extend_from_slice(piece.as_ref());
        }
        Ok(bytes)
    }

    /// As much of it as says what went wrong: what broke before that counts more than a broken end.
    pub(super) async fn beginning(&mut self) -> Vec<u8> {
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

    /// Reads to the end of what nobody needs, so that the connection can be used again.
    pub(super) async fn drain(&mut self) {
        let rest = async { while let Ok(Some(_)) = self.next().await {} };
        // Where it takes longer, the connection is closed with the body.
        let _ = timeout(DRAIN, rest).await;
    }

    fn check_size(&self, n_bytes: u64) -> Result<(), Fault> {
        let limit = self.limits.body_bytes;
        if n_bytes > limit as u64 {
            let message = format!("the answer has more than {limit} bytes");
            return Err(Fault::new(ErrorKind::TooLarge, message));
        }
        Ok(())
    }

    fn patience(&self) -> (Phase, Duration) {
        if self.n_bytes == 0 {
            (Phase::FirstByte, self.timeouts.first_byte)
        } else {
            (Phase::Idle, self.timeouts.idle)
        }
    }
}
