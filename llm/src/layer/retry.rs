//! Retries: a call that failed is made again, where that may help.

use std::{
    fmt,
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use tokio::time::sleep;

use crate::{Error, Listener, Llm, Model, ModelId, Request, Response};

/// By how much at most a wait is made longer, so that calls that failed together do not come back together.
const JITTER: f64 = 0.25;

/// How often a failed call is made again, and how long it waits before.
///
/// The first wait is one second, and each further one is twice as long as the one before. Where the provider
/// says how long it wants to be left alone, that counts instead. All waits are made up to a quarter longer by
/// chance; none is made shorter.
#[derive(Clone)]
pub struct Backoff {
    max_retries: u32,
    first_wait: Duration,
    patience: Duration,
    random: Arc<dyn Fn() -> f64 + Send + Sync>,
}

impl Backoff {
    /// Makes a failed call again so many times at most: 3 are up to 4 attempts.
    pub fn new(max_retries: u32) -> Self {
        Self {
            max_retries,
            first_wait: Duration::from_secs(1),
            patience: Duration::from_secs(60),
            random: Arc::new(fraction),
        }
    }

    /// Waits so long before the second attempt.
    pub fn first_wait(mut self, wait: Duration) -> Self {
        self.first_wait = wait;
        self
    }

    /// Waits no longer than this at a time, but for what chance adds; a minute if nothing else is said.
    ///
    /// A call whose provider asks to be left alone for longer fails at once.
    pub fn patience(mut self, longest: Duration) -> Self {
        self.patience = longest;
        self
    }

    /// Draws numbers from 0 to 1 from here instead of by chance.
    pub fn random(mut self, draw: impl Fn() -> f64 + Send + Sync + 'static) -> Self {
        self.random = Arc::new(draw);
        self
    }

    /// How long to wait after so many attempts, or why there is no point in waiting.
    fn wait(&self, attempts: u32, error: &Error) -> Result<Duration, String> {
        if !error.is_retryable() {
            return Err(String::new());
        }
        if attempts > self.max_retries {
            return Err("; try again later, or allow more retries".to_owned());
        }
        if let Some(asked) = error.retry_after.filter(|it| *it > self.patience) {
            let (asked, patience) = (asked.as_secs_f64(), self.patience.as_secs_f64());
            return Err(format!(
                "; the provider asks to wait {asked:.0} s, and the patience ends at {patience:.0} s"
            ));
        }
        let doubled = 2u32.saturating_pow(attempts - 1);
        let own = self.first_wait.saturating_mul(doubled).min(self.patience);
        let wait = error.retry_after.unwrap_or(own);
        let jittered = wait.as_secs_f64() * (1.0 + JITTER * (self.random)().clamp(0.0, 1.0));
        Ok(Duration::try_from_secs_f64(jittered).unwrap_or(wait))
    }
}

impl Default for Backoff {
    /// Three retries: after one, two and four seconds.
    fn default() -> Self {
        Self::new(3)
    }
}

impl fmt::Debug for Backoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backoff")
            .field("max_retries", &self.max_retries)
            .field("first_wait", &self.first_wait)
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}

impl Llm {
    /// Makes failed calls again, where [that may help](Error::is_retryable).
    ///
    /// A [gate](Llm::gate) or a [budget](Llm::budget) below this layer sees every attempt; one above it sees
    /// one call.
    pub fn retry(self, backoff: Backoff) -> Self {
        Self::new(Retried { inner: self, backoff })
    }
}

#[derive(Debug)]
struct Retried {
    inner: Llm,
    backoff: Backoff,
}

#[async_trait]
impl Model for Retried {
    fn id(&self) -> ModelId {
        self.inner.id()
    }

    async fn call(
        &self,
        request: &Request,
        listener: &mut Listener<'_>,
    ) -> Result<Response, Error> {
        let mut attempts = 1;
        loop {
            let error = match self.inner.call(request, listener).await {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            match self.backoff.wait(attempts, &error) {
                Ok(wait) => sleep(wait).await,
                Err(reason) => return Err(given_up(error, attempts, &reason)),
            }
            listener.start_over();
            attempts += 1;
        }
    }
}

/// The last error, with the number of attempts in its words.
fn given_up(mut error: Error, attempts: u32, reason: &str) -> Error {
    let plural = if attempts == 1 { "" } else { "s" };
    error.message += &format!(" (given up after {attempts} attempt{plural}{reason})");
    error
}

fn fraction() -> f64 {
    // Each `RandomState` has keys of its own.
    let bits = RandomState::new().hash_one(0) >> 11;
    bits as f64 / (1u64 << 53) as f64
}
