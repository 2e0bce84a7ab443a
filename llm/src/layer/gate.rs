//! The gate: not too many calls at once, and not too many a minute.

mod meter;

use std::{
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use tokio::{
    sync::{Mutex as Turnstile, Notify, Semaphore, SemaphorePermit},
    time::{Instant, sleep_until},
};

use self::meter::{Admission, Meter};
use crate::lock::lock;
use crate::{Error, ErrorKind, Listener, Llm, Model, ModelId, Request, Response, overflow};

/// How many calls may run at once, and how many may start in a minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Pace {
    concurrency: usize,
    requests_per_minute: Option<u64>,
    tokens_per_minute: Option<u64>,
    patience: Duration,
}

impl Pace {
    /// Lets so many calls run at once, at least one.
    pub fn new(concurrency: usize) -> Self {
        Self {
            concurrency: concurrency.clamp(1, Semaphore::MAX_PERMITS),
            requests_per_minute: None,
            tokens_per_minute: None,
            patience: Duration::from_secs(60),
        }
    }

    /// Lets so many calls start in any sixty seconds, at least one.
    pub fn requests_per_minute(mut self, requests: u64) -> Self {
        self.requests_per_minute = Some(requests.max(1));
        self
    }

    /// Lets calls read and write so many tokens in any sixty seconds.
    ///
    /// A call starts when there is room for its estimate: the request's tokens and all that the answer may
    /// have. When it ends, the estimate gives way to what was used, where the provider says so. A call whose
    /// estimate is over the limit starts when nothing else counts.
    pub fn tokens_per_minute(mut self, tokens: u64) -> Self {
        self.tokens_per_minute = Some(tokens.max(1));
        self
    }

    /// How long the provider may close the gate before calls fail instead of waiting, a minute if nothing else
    /// is said.
    pub fn patience(mut self, longest: Duration) -> Self {
        self.patience = longest;
        self
    }
}

/// A gate for all calls to one provider. Clones are the same gate; so are all models that go through it.
///
/// Calls pass in the order in which they came. A call that waits holds a place in the queue and nothing else, but for
/// the first in line, which has its place among those that run; a call that is dropped gives back its place, and of its tokens those that its answer did not come to need. When
/// a provider [asks to be left alone](Error::retry_after), the gate is closed for everybody until then.
#[derive(Clone)]
pub struct Gate {
    shared: Arc<Shared>,
}

struct Shared {
    patience: Duration,
    /// Where calls stand in line. Who holds it is the next to pass, and waits for what is missing.
    turnstile: Turnstile<()>,
    places: Semaphore,
    /// Told when a call has left, which may have used less than was reserved for it.
    settled: Notify,
    // A std mutex: held for a moment, never over an await.
    meter: Mutex<Meter>,
}

impl Gate {
    /// A gate with this pace, open.
    pub fn new(pace: Pace) -> Self {
        let Pace { concurrency, requests_per_minute, tokens_per_minute, patience } = pace;
        let meter = Meter::new(requests_per_minute, tokens_per_minute);
        let shared = Shared {
            patience,
            turnstile: Turnstile::new(()),
            places: Semaphore::new(concurrency),
            settled: Notify::new(),
            meter: Mutex::new(meter),
        };
        Self { shared: Arc::new(shared) }
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate")
            .field("free_places", &self.shared.places.available_permits())
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// Waits in line, then for all that the call needs; or says for how long the gate is closed.
    async fn pass(&self, input: u64, output: u64) -> Result<Pass<'_>, Duration> {
        let _turn = self.turnstile.lock().await;
        let place = self.places.acquire().await.expect("nobody closes the semaphore");
        let reserved = input.saturating_add(output);
        loop {
            let admission = lock(&self.meter).admit(Instant::now(), reserved);
            match admission {
                Admission::Passed { second } => {
                    return Ok(Pass { gate: self, second, reserved, used: input, _place: place });
                }
                Admission::Full { until } => tokio::select! {
                    () = sleep_until(until) => {}
                    () = self.settled.notified() => {}
                },
                Admission::Closed { until } => {
                    let rest = until.saturating_duration_since(Instant::now());
                    if rest > self.patience {
                        return Err(rest);
                    }
                    sleep_until(until).await;
                }
            }
        }
    }
}

/// A call that has passed. When it is dropped, its place is free, and its tokens are counted as used.
struct Pass<'a> {
    gate: &'a Shared,
    /// When it passed.
    second: u64,
    reserved: u64,
    /// What it read at least: the request. What the answer had is known when there is one.
    used: u64,
    _place: SemaphorePermit<'a>,
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        lock(&self.gate.meter).settle(self.second, self.reserved, self.used);
        self.gate.settled.notify_one();
    }
}

impl Llm {
    /// Sends all calls through a gate, which several models of a provider can share.
    ///
    /// A stream keeps its place until it is read to its end or dropped, also while nobody reads it.
    pub fn gate(self, gate: &Gate) -> Self {
        Self::new(Gated { inner: self, gate: gate.clone() })
    }
}

#[derive(Debug)]
struct Gated {
    inner: Llm,
    gate: Gate,
}

#[async_trait]
impl Model for Gated {
    fn id(&self) -> ModelId {
        self.inner.id()
    }

    async fn call(
        &self,
        request: &Request,
        listener: &mut Listener<'_>,
    ) -> Result<Response, Error> {
        let gate = &*self.gate.shared;
        let passed = gate
            .pass(
                overflow::estimate_tokens(&self.id().provider, request),
                request.max_tokens.into(),
            )
            .await;
        let mut pass = passed.map_err(|rest| closed(self.id(), rest))?;
        let outcome = self.inner.call(request, listener).await;
        match &outcome {
            Ok(response) => {
                let told = response.usage.map(|it| it.input.saturating_add(it.output));
                pass.used = told.unwrap_or(pass.reserved);
            }
            Err(Error { retry_after: Some(rest), .. }) => {
                lock(&gate.meter).close(Instant::now(), *rest);
            }
            Err(_) => {}
        }
        outcome
    }
}

fn closed(model: ModelId, rest: Duration) -> Error {
    let seconds = rest.as_secs_f64();
    let message = format!(
        "the provider has asked for no calls for another {seconds:.0} s; wait so long, or raise the gate's patience"
    );
    Error { retry_after: Some(rest), ..Error::new(ErrorKind::RateLimited, model, message) }
}
