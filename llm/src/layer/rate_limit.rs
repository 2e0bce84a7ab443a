//! Rate limiting: limits concurrent calls, requests per minute and tokens per minute.

mod meter;

use std::{
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use tokio::{
    sync::{Mutex as FifoMutex, Notify, Semaphore, SemaphorePermit},
    time::{Instant, sleep_until},
};

use self::meter::{Admission, Meter};
use crate::lock::lock;
use crate::{Error, ErrorKind, Listener, Llm, Model, ModelId, Request, Response, overflow};

/// Limits of a [`RateLimiter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct RateLimit {
    concurrency: usize,
    requests_per_minute: Option<u64>,
    tokens_per_minute: Option<u64>,
    max_wait: Duration,
}

impl RateLimit {
    /// Creates limits with this maximum number of concurrent calls. Zero counts as one.
    pub fn new(concurrency: usize) -> Self {
        Self {
            concurrency: concurrency.clamp(1, Semaphore::MAX_PERMITS),
            requests_per_minute: None,
            tokens_per_minute: None,
            max_wait: Duration::from_secs(60),
        }
    }

    /// Limits the number of calls that start within any 60 seconds. Zero counts as one.
    pub fn requests_per_minute(mut self, requests: u64) -> Self {
        self.requests_per_minute = Some(requests.max(1));
        self
    }

    /// Limits the number of tokens used within any 60 seconds. Zero counts as one.
    ///
    /// The estimate for a call is the number of tokens in the request plus `max_tokens`. A call starts when its
    /// estimate fits within the limit. When the call ends, the reported usage replaces the estimate. A call whose
    /// estimate alone exceeds the limit starts when no other call counts towards the limit.
    pub fn tokens_per_minute(mut self, tokens: u64) -> Self {
        self.tokens_per_minute = Some(tokens.max(1));
        self
    }

    /// Sets the maximum time that calls wait when the provider asks for a pause. If the pause lasts longer, calls
    /// fail immediately. One minute by default.
    pub fn max_wait(mut self, longest: Duration) -> Self {
        self.max_wait = longest;
        self
    }
}

/// A rate limiter for all calls to one provider. Clones share the same state, as do all models that use it.
///
/// Calls start in the order in which they arrive. A waiting call holds only its position in the queue; the first
/// call in the queue may also hold one of the slots for concurrent calls. A dropped call releases its slot and the
/// tokens reserved for its response. When a provider [asks for a pause](Error::retry_after), all calls wait until the
/// pause is over.
///
/// ```
/// use llm::{Llm, RateLimit, RateLimiter, Scripted};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let limit = RateLimit::new(8).requests_per_minute(500).tokens_per_minute(200_000);
/// let limiter = RateLimiter::new(limit);
///
/// // Two models of the same provider share its limits.
/// let small = Llm::new(Scripted::new("small", |_| "Yes.")).rate_limit(&limiter);
/// let large = Llm::new(Scripted::new("large", |_| "Certainly.")).rate_limit(&limiter);
/// assert_eq!(small.generate("Is the sky blue?").await?.text(), "Yes.");
/// assert_eq!(large.generate("Is the sky blue?").await?.text(), "Certainly.");
/// # Ok::<(), llm::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct RateLimiter {
    shared: Arc<Shared>,
}

struct Shared {
    max_wait: Duration,
    /// FIFO queue of waiting calls. The call that holds the lock is the next one to start.
    queue: FifoMutex<()>,
    permits: Semaphore,
    /// Notified when a call ends, because the call may have used less than its reservation.
    released: Notify,
    // A std mutex suffices, because it is locked briefly and never across an await.
    meter: Mutex<Meter>,
}

impl RateLimiter {
    /// Creates a rate limiter with these limits.
    pub fn new(limit: RateLimit) -> Self {
        let RateLimit { concurrency, requests_per_minute, tokens_per_minute, max_wait } = limit;
        let meter = Meter::new(requests_per_minute, tokens_per_minute);
        let shared = Shared {
            max_wait,
            queue: FifoMutex::new(()),
            permits: Semaphore::new(concurrency),
            released: Notify::new(),
            meter: Mutex::new(meter),
        };
        Self { shared: Arc::new(shared) }
    }
}

impl fmt::Debug for RateLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimiter")
            .field("free_permits", &self.shared.permits.available_permits())
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// Waits for the call's turn and for free capacity. If the provider asked for a pause and the remaining pause
    /// exceeds `max_wait`, returns the remaining time as the error.
    async fn admit(&self, input: u64, output: u64) -> Result<Permit<'_>, Duration> {
        let _turn = self.queue.lock().await;
        let slot = self.permits.acquire().await.expect("the semaphore is never closed");
        let reserved = input.saturating_add(output);
        loop {
            let admission = lock(&self.meter).admit(Instant::now(), reserved);
            match admission {
                Admission::Granted { second } => {
                    return Ok(Permit {
                        limiter: self,
                        second,
                        reserved,
                        used: input,
                        _slot: slot,
                    });
                }
                Admission::Full { until } => tokio::select! {
                    () = sleep_until(until) => {}
                    () = self.released.notified() => {}
                },
                Admission::Paused { until } => {
                    let rest = until.saturating_duration_since(Instant::now());
                    if rest > self.max_wait {
                        return Err(rest);
                    }
                    sleep_until(until).await;
                }
            }
        }
    }
}

/// Permit of an admitted call. Dropping it releases the slot and counts the tokens that the call used.
struct Permit<'a> {
    limiter: &'a Shared,
    /// Second in which the call was admitted, counted from the start of the meter.
    second: u64,
    reserved: u64,
    /// Number of tokens used: at first those in the request, and the reported usage once it is known.
    used: u64,
    _slot: SemaphorePermit<'a>,
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        lock(&self.limiter.meter).settle(self.second, self.reserved, self.used);
        self.limiter.released.notify_one();
    }
}

impl Llm {
    /// Sends all calls through a rate limiter, which several models of a provider can share.
    ///
    /// A stream holds its slot until the stream is read to its end or dropped.
    pub fn rate_limit(self, limiter: &RateLimiter) -> Self {
        Self::new(RateLimitedModel { inner: self, limiter: limiter.clone() })
    }
}

#[derive(Debug)]
struct RateLimitedModel {
    inner: Llm,
    limiter: RateLimiter,
}

#[async_trait]
impl Model for RateLimitedModel {
    fn id(&self) -> ModelId {
        self.inner.id()
    }

    async fn call(
        &self,
        request: &Request,
        listener: &mut Listener<'_>,
    ) -> Result<Response, Error> {
        let limiter = &*self.limiter.shared;
        let admitted = limiter
            .admit(
                overflow::estimate_tokens(&self.id().provider, request),
                request.max_tokens.into(),
            )
            .await;
        let mut permit = admitted.map_err(|rest| paused_error(self.id(), rest))?;
        let outcome = self.inner.call(request, listener).await;
        match &outcome {
            Ok(response) => {
                let reported = response.usage.map(|it| it.input.saturating_add(it.output));
                permit.used = reported.unwrap_or(permit.reserved);
            }
            Err(Error { retry_after: Some(rest), .. }) => {
                lock(&limiter.meter).pause(Instant::now(), *rest);
            }
            Err(_) => {}
        }
        outcome
    }
}

fn paused_error(model: ModelId, rest: Duration) -> Error {
    let seconds = rest.as_secs_f64();
    let message = format!(
        "the provider asked for a pause that lasts another {seconds:.0} s; wait that long, or raise `max_wait`"
    );
    Error { retry_after: Some(rest), ..Error::new(ErrorKind::RateLimited, model, message) }
}
