//! Retries of failed calls.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use graph_core::NodeError;

use crate::error::{error_name, is_failure};

/// Options for retrying failed calls.
#[derive(Clone)]
pub struct RetryOptions {
    /// Maximum number of retries after the first attempt.
    pub max_retries: u32,
    /// Selects the errors that are worth another attempt. Other errors are returned immediately.
    pub retry_on: Arc<dyn Fn(&NodeError) -> bool + Send + Sync>,
    /// Action to take after the last attempt has failed.
    pub on_failure: OnFailure,
    /// Factor by which the delay grows with each retry. 0 keeps it constant.
    pub backoff_factor: f64,
    /// Delay before the first retry.
    pub initial_delay: Duration,
    /// Maximum delay, before jitter.
    pub max_delay: Duration,
    /// Whether each delay is changed at random, by at most a quarter.
    pub jitter: bool,
}

/// Action to take after the last attempt of a call has failed.
#[derive(Clone)]
#[non_exhaustive]
pub enum OnFailure {
    /// The call is answered with a text that names the number of attempts and the last error.
    Continue,
    /// The last error is returned.
    Fail,
    /// The call is answered with the text that the function returns.
    AnswerWith(Arc<dyn Fn(&NodeError) -> String + Send + Sync>),
}

impl fmt::Debug for OnFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Continue => "Continue",
            Self::Fail => "Fail",
            Self::AnswerWith(_) => "AnswerWith",
        })
    }
}

impl Default for RetryOptions {
    fn default() -> Self {
        Self {
            max_retries: 2,
            retry_on: Arc::new(is_retryable),
            on_failure: OnFailure::Continue,
            backoff_factor: 2.0,
            initial_delay: Duration::from_secs(1),
            max_delay: Duration::from_secs(60),
            jitter: true,
        }
    }
}

/// Returns whether a retry may succeed: true unless the error is terminal, or is a model error that is not retryable.
fn is_retryable(error: &NodeError) -> bool {
    !error.is_terminal() && error.downcast_ref::<llm::Error>().is_none_or(llm::Error::is_retryable)
}

impl fmt::Debug for RetryOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryOptions")
            .field("max_retries", &self.max_retries)
            .finish_non_exhaustive()
    }
}

impl RetryOptions {
    /// Makes a call until it succeeds, fails with an error that is not retried, or has used up its attempts. In the
    /// last case, `on_failure` applies: the error is returned, or `answer` converts a text to the answer. `subject`
    /// completes a phrase such as `failed after 3 attempts with ..` to a sentence that names the call.
    pub(crate) async fn retry<T, F>(
        &self,
        mut call: impl FnMut() -> F,
        subject: impl Fn(&str) -> String,
        answer: impl FnOnce(String) -> T,
    ) -> Result<T, NodeError>
    where
        F: Future<Output = Result<T, NodeError>>,
    {
        let mut retries = 0;
        let error = loop {
            let error = match call().await {
                Err(error) if is_failure(&error) && (self.retry_on)(&error) => error,
                result => return result,
            };
            if retries == self.max_retries {
                break error;
            }
            let delay = self.delay(retries);
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            retries += 1;
        };
        match &self.on_failure {
            OnFailure::Fail => Err(error),
            OnFailure::AnswerWith(text) => Ok(answer(text(&error))),
            OnFailure::Continue => {
                let noun = if retries == 0 { "attempt" } else { "attempts" };
                let (attempts, name) = (u64::from(retries) + 1, error_name(&error));
                let cause = format!("failed after {attempts} {noun} with {name}: {error}");
                Ok(answer(subject(&cause)))
            }
        }
    }

    fn delay(&self, retry: u32) -> Duration {
        let factor = if self.backoff_factor == 0.0 {
            1.0
        } else {
            self.backoff_factor.powi(i32::try_from(retry).unwrap_or(i32::MAX))
        };
        let seconds = (self.initial_delay.as_secs_f64() * factor).min(self.max_delay.as_secs_f64());
        let share = if self.jitter { 0.75 + 0.5 * random_fraction() } else { 1.0 };
        Duration::from_secs_f64(seconds * share)
    }
}

/// Returns a random number in `0.0..1.0`.
fn random_fraction() -> f64 {
    let mut bytes = [0; 4];
    // If there are no random bytes, 0.5 leaves the delay unchanged, because jitter is symmetric.
    if getrandom::fill(&mut bytes).is_err() {
        return 0.5;
    }
    f64::from(u32::from_le_bytes(bytes)) / (f64::from(u32::MAX) + 1.0)
}
