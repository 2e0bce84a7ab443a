//! The budget: limits on tokens and money. The maximum cost of a call is reserved before the call, and the actual cost
//! is charged after it.

mod account;

use std::sync::{Arc, LazyLock, Mutex};

use async_trait::async_trait;
use tokio::sync::{Mutex as FifoMutex, Notify};

pub use self::account::Spending;
use self::account::{Account, ReserveOutcome};
use crate::lock::lock;
use crate::{
    Catalog, Error, ErrorKind, Listener, Llm, Model, ModelId, Money, Recording, Request, Response,
    Usage, overflow,
};

/// Limits on the total cost of a set of calls. Clones share the same budget, as do all models that use it.
///
/// Before a call, the budget reserves the call's maximum cost: the estimated tokens of the request plus
/// `max_tokens`, at the catalog's prices. After the call, the actual usage replaces the reservation. Concurrent
/// calls together therefore stay within the limits as long as no call uses more than its estimate. Usage beyond an
/// estimate is charged too and leaves less for later calls.
///
/// If the budget does not cover a call only because of the reservations of concurrent calls, the call waits until
/// enough of them are released. Waiting calls are served in order of arrival. If the budget does not cover a call on
/// top of the amount already spent, the call fails with [`ErrorKind::Budget`]. If the budget limits money, a call with
/// an unknown price fails with the same error.
///
/// A call whose actual cost is unknown is charged its full reservation. This applies to calls that are dropped, that
/// fail after the provider may have started to answer, or whose provider reports no usage.
///
/// ```
/// use llm::{Budget, ErrorKind, Llm, Request, Scripted};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let budget = Budget::of_tokens(500);
/// let llm = Llm::new(Scripted::new("parrot", |_| "Because of the air.")).budget(&budget);
///
/// let request = Request::new("Why is the sky blue?").max_tokens(100);
/// llm.generate(request.clone()).await?;
/// assert!(budget.spent().tokens < 100);
///
/// // A response of up to 1,000 tokens could exceed the budget, so the call is not made.
/// let error = llm.generate(request.max_tokens(1_000)).await.unwrap_err();
/// assert_eq!(error.kind, ErrorKind::Budget);
/// # Ok::<(), llm::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Budget {
    catalog: Arc<Catalog>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// FIFO queue of waiting calls. The call that holds the lock is the next one to reserve.
    queue: FifoMutex<()>,
    /// Notified when a reservation is released.
    released: Notify,
    // A std mutex suffices, because it is locked briefly and never across an await.
    account: Mutex<Account>,
}

impl Budget {
    /// Creates a budget that limits the total number of tokens in requests and responses.
    pub fn of_tokens(tokens: u64) -> Self {
        Self::of(Some(tokens), None)
    }

    /// Creates a budget that limits the total cost, at the prices of the built-in catalog.
    pub fn of_money(money: Money) -> Self {
        Self::of(None, Some(money))
    }

    /// Creates a budget that limits both tokens and money, at the prices of the built-in catalog.
    pub fn of_both(tokens: u64, money: Money) -> Self {
        Self::of(Some(tokens), Some(money))
    }

    fn of(tokens: Option<u64>, money: Option<Money>) -> Self {
        static BUILTIN: LazyLock<Arc<Catalog>> =
            LazyLock::new(|| Arc::new(Catalog::builtin().clone()));
        let shared = Shared {
            queue: FifoMutex::new(()),
            released: Notify::new(),
            account: Mutex::new(Account::new(tokens, money)),
        };
        Self { catalog: BUILTIN.clone(), shared: Arc::new(shared) }
    }

    /// Uses the prices of this catalog instead of the built-in one.
    pub fn priced_by(mut self, catalog: Catalog) -> Self {
        self.catalog = Arc::new(catalog);
        self
    }

    /// Charges the calls in a recording to this budget, except for the first `skip` calls, which were charged
    /// elsewhere.
    ///
    /// Failed calls are charged as if they had been made with this budget. Calling this method twice charges the calls
    /// twice.
    pub fn charge_recording(self, recording: &Recording, skip: usize) -> Self {
        for call in recording.recorded_calls(skip) {
            let amount = self.max_cost(&call.model, &call.request).unwrap_or_default();
            let mut reservation = Reservation { budget: &self, amount, used: amount };
            reservation.settle(&call.model, &call.outcome);
            for usage in call.failed_attempts {
                let used = usage.map_or(amount, |it| self.cost_of_usage(&call.model, amount, &it));
                drop(Reservation { budget: &self, amount: Spending::default(), used });
            }
        }
        self
    }

    /// Returns the amount spent so far. Reservations of calls in flight are not included.
    pub fn spent(&self) -> Spending {
        lock(&self.shared.account).spent()
    }

    /// Reserves the maximum cost of a call. Waits for the call's turn, and then until the budget covers the call on top
    /// of the calls in flight.
    async fn reserve(&self, model: ModelId, request: &Request) -> Result<Reservation<'_>, Error> {
        let amount = self.max_cost(&model, request)?;
        let _turn = self.shared.queue.lock().await;
        loop {
            let outcome = lock(&self.shared.account).reserve(amount);
            match outcome {
                ReserveOutcome::Reserved => {
                    return Ok(Reservation { budget: self, amount, used: amount });
                }
                ReserveOutcome::Wait => self.shared.released.notified().await,
                ReserveOutcome::Rejected(problem) => {
                    return Err(Error::new(ErrorKind::Budget, model, problem));
                }
            }
        }
    }

    /// Returns the maximum cost of a call, which is the amount reserved for it.
    ///
    /// # Errors
    ///
    /// Returns an error if the budget limits money and the model's price is unknown.
    pub fn max_cost(&self, model: &ModelId, request: &Request) -> Result<Spending, Error> {
        let (input, output) =
            (overflow::estimate_tokens(&model.provider, request), u64::from(request.max_tokens));
        let read = Usage { input, output, ..Usage::default() };
        // It is unknown whether the provider writes the request to its prompt cache, so the higher of the two prices is
        // used.
        let written = Usage { cache_written: input, ..read };
        let money = self.price(model, &read).max(self.price(model, &written));
        if money.is_none() && lock(&self.shared.account).limits_money() {
            return Err(Error::new(ErrorKind::Budget, model.clone(), NO_PRICE));
        }
        let tokens = input.saturating_add(output);
        Ok(Spending { tokens, money: money.unwrap_or_default() })
    }

    /// Returns the cost of a call that has ended, for which `reserved` was reserved: the reported usage, nothing if the
    /// request was rejected, and the reserved amount if the actual cost is unknown.
    pub fn actual_cost(
        &self,
        model: &ModelId,
        reserved: Spending,
        outcome: &Result<Response, Error>,
    ) -> Spending {
        match outcome {
            Ok(Response { usage, cost, .. }) => {
                let tokens = usage.map(|it| it.input.saturating_add(it.output));
                let money = cost.or_else(|| self.price(model, usage.as_ref()?));
                Spending {
                    tokens: tokens.unwrap_or(reserved.tokens),
                    money: money.unwrap_or(reserved.money),
                }
            }
            Err(Error { usage: Some(usage), .. }) => self.cost_of_usage(model, reserved, usage),
            Err(error) if error.is_free() => Spending::default(),
            Err(_) => reserved,
        }
    }

    /// Returns the cost of a failed call with this usage, for which `reserved` was reserved.
    fn cost_of_usage(&self, model: &ModelId, reserved: Spending, usage: &Usage) -> Spending {
        Spending {
            tokens: usage.input.saturating_add(usage.output),
            money: self.price(model, usage).unwrap_or(reserved.money),
        }
    }

    fn price(&self, model: &ModelId, usage: &Usage) -> Option<Money> {
        self.catalog.entry(model)?.cost(usage)
    }
}

const NO_PRICE: &str = "the model's price is unknown, so a money budget cannot be enforced; \
    limit tokens instead, or add the price to a catalog";

/// Reserved amount of a call in flight. Dropping the reservation charges `used`, which is the full amount unless
/// [`settle`](Self::settle) has replaced it with the actual cost.
struct Reservation<'a> {
    budget: &'a Budget,
    amount: Spending,
    used: Spending,
}

impl Reservation<'_> {
    fn settle(&mut self, model: &ModelId, outcome: &Result<Response, Error>) {
        self.used = self.budget.actual_cost(model, self.amount, outcome);
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        lock(&self.budget.shared.account).settle(self.amount, self.used);
        self.budget.shared.released.notify_one();
    }
}

impl Llm {
    /// Limits calls to a budget and charges their cost to it.
    ///
    /// If [retries](Llm::retry) wrap this layer, the budget sees every attempt; if this layer wraps the retries, it
    /// sees only the call as a whole. If this layer wraps a [cache](Llm::cache), it also makes a reservation for cached
    /// responses, although they turn out to cost nothing. A stream holds its reservation until the stream is read to
    /// its end or dropped.
    ///
    /// Do not add the same budget twice to a stack of layers, because the inner layer might wait forever for the
    /// reservation of the outer one.
    pub fn budget(self, budget: &Budget) -> Self {
        Self::new(BudgetedModel { inner: self, budget: budget.clone() })
    }
}

#[derive(Debug)]
struct BudgetedModel {
    inner: Llm,
    budget: Budget,
}

#[async_trait]
impl Model for BudgetedModel {
    fn id(&self) -> ModelId {
        self.inner.id()
    }

    async fn call(
        &self,
        request: &Request,
        listener: &mut Listener<'_>,
    ) -> Result<Response, Error> {
        let mut reservation = self.budget.reserve(self.id(), request).await?;
        let outcome = self.inner.call(request, listener).await;
        reservation.settle(&self.id(), &outcome);
        outcome
    }
}
