//! Retries of failed calls.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::time::sleep;

use crate::{Error, Listener, Llm, Model, ModelId, Request, Response};

/// Maximum jitter, as a fraction of the wait. Jitter spreads out the retries of calls that failed at the same time.
const JITTER: f64 = 0.25;

/// How often to retry a failed call and how long to wait before each retry.
///
/// By default, the first wait is one second. Every further wait is twice as long as the previous one. A wait requested
/// by the provider takes precedence, unless it is zero, as with a date in the past. Random jitter lengthens each wait
/// by up to a quarter and never shortens it.
///
/// ```
/// use std::time::Duration;
/// use llm::{Backoff, ErrorKind, Llm, Reply, Scripted};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let overloaded_once = [Reply::from(ErrorKind::Overloaded), Reply::from("Because of the air.")];
/// let backoff = Backoff::new(3).first_wait(Duration::from_millis(1));
/// let llm = Llm::new(Scripted::replies("parrot", overloaded_once)).retry(backoff);
/// assert_eq!(llm.generate("Why is the sky blue?").await?.text(), "Because of the air.");
/// # Ok::<(), llm::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Backoff {
    max_retries: u32,
    first_wait: Duration,
    max_wait: Duration,
    random: Arc<dyn Fn() -> f64 + Send + Sync>,
}

impl Backoff {
    /// Creates a backoff with this maximum number of retries. Three retries mean up to four attempts.
    pub fn new(max_retries: u32) -> Self {
        Self {
            max_retries,
            first_wait: Duration::from_secs(1),
            max_wait: Duration::from_secs(60),
            random: Arc::new(fastrand::f64),
        }
    }

    /// Sets the wait before the first retry.
    pub fn first_wait(mut self, wait: Duration) -> Self {
        self.first_wait = wait;
        self
    }

    /// Sets the maximum wait before a retry, not counting the jitter. One minute by default.
    ///
    /// A call fails immediately if the provider asks for a longer wait.
    pub fn max_wait(mut self, longest: Duration) -> Self {
        self.max_wait = longest;
        self
    }

    /// Sets the function that returns random numbers from 0 to 1 for the jitter.
    pub fn random(mut self, draw: impl Fn() -> f64 + Send + Sync + 'static) -> Self {
        self.random = Arc::new(draw);
        self
    }

    /// Waits before the next attempt, or returns the error if the call is not retried.
    pub(crate) async fn wait_after(&self, attempts: u32, error: Error) -> Result<(), Error> {
        match self.wait(attempts, &error) {
            Ok(wait) => sleep(wait).await,
            Err(reason) => return Err(with_attempts(error, attempts, &reason)),
        }
        Ok(())
    }

    /// Returns how long to wait after this many attempts, or the reason not to retry.
    fn wait(&self, attempts: u32, error: &Error) -> Result<Duration, String> {
        if !error.is_retryable() {
            return Err(String::new());
        }
        if attempts > self.max_retries {
            return Err("; try again later, or allow more retries".to_owned());
        }
        if let Some(requested) = error.retry_after.filter(|it| *it > self.max_wait) {
            let (requested, max_wait) = (requested.as_secs_f64(), self.max_wait.as_secs_f64());
            return Err(format!(
                "; the provider asks to wait {requested:.0} s, but `max_wait` is {max_wait:.0} s"
            ));
        }
        let doubled = 2u32.saturating_pow(attempts - 1);
        let own = self.first_wait.saturating_mul(doubled).min(self.max_wait);
        let wait = error.retry_after.filter(|it| !it.is_zero()).unwrap_or(own);
        let jittered = wait.as_secs_f64() * (1.0 + JITTER * (self.random)().clamp(0.0, 1.0));
        Ok(Duration::try_from_secs_f64(jittered).unwrap_or(wait))
    }
}

impl Default for Backoff {
    /// Returns a backoff with three retries, after one, two and four seconds.
    fn default() -> Self {
        Self::new(3)
    }
}

impl fmt::Debug for Backoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backoff")
            .field("max_retries", &self.max_retries)
            .field("first_wait", &self.first_wait)
            .field("max_wait", &self.max_wait)
            .finish_non_exhaustive()
    }
}

impl Llm {
    /// Retries failed calls if they are [retryable](Error::is_retryable).
    ///
    /// If this layer wraps a [rate limiter](Llm::rate_limit) or a [budget](Llm::budget), they see every attempt. If
    /// they wrap this layer, they see a single call.
    pub fn retry(self, backoff: Backoff) -> Self {
        Self::new(RetriedModel { inner: self, backoff })
    }
}

#[derive(Debug)]
struct RetriedModel {
    inner: Llm,
    backoff: Backoff,
}

#[async_trait]
impl Model for RetriedModel {
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
            let cost = (!error.is_free()).then(|| error.usage.as_deref().copied());
            self.backoff.wait_after(attempts, error).await?;
            listener.failed_attempts.extend(cost);
            listener.restart();
            attempts += 1;
        }
    }
}

/// Adds the number of attempts to the message of the last error.
fn with_attempts(mut error: Error, attempts: u32, reason: &str) -> Error {
    let plural = if attempts == 1 { "" } else { "s" };
    error.message += &format!(" (given up after {attempts} attempt{plural}{reason})");
    error
}
