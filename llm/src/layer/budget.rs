//! The budget: limits on tokens and money, reserved before a call and charged after it.

mod account;

use std::sync::{Arc, LazyLock, Mutex};

use async_trait::async_trait;
use tokio::sync::{Mutex as FifoMutex, Notify};

pub use self::account::Spending;
use self::account::{Account, ReserveOutcome};
use crate::lock::lock;
use crate::{
    Catalog, Error, ErrorKind, Listener, Llm, Model, ModelId, Money, Phase, Recording, Request,
    Response, Usage, overflow,
};

/// Limits on what a set of calls may cost in total. Clones share the same budget, as do all models that use it.
///
/// Before a call, the budget reserves the call's maximum cost: the estimated tokens of the request plus
/// `max_tokens`, at the catalog's prices. After the call, the actual usage replaces the reservation. Concurrent
/// calls together therefore stay within the limits as far as the estimates hold. Usage beyond an estimate is
/// charged too and reduces what is left for later calls.
///
/// A call that would fit if concurrent calls released their reservations waits for them, first come, first served.
/// A call that does not fit next to the amount already spent fails with [`ErrorKind::Budget`]. So does a call with
/// an unknown price if the budget limits money.
///
/// Unknown costs are charged at the full reservation: of calls that are dropped, that fail after the provider may
/// have started to answer, or whose provider reports no usage.
#[derive(Clone, Debug)]
pub struct Budget {
    catalog: Arc<Catalog>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// FIFO queue of waiting calls; the holder of the lock is next to reserve.
    queue: FifoMutex<()>,
    /// Notified when a reservation is released.
    released: Notify,
    // A std mutex: locked briefly, never across an await.
    account: Mutex<Account>,
}

impl Budget {
    /// Limits the total number of tokens of requests and responses.
    pub fn of_tokens(tokens: u64) -> Self {
        Self::of(Some(tokens), None)
    }

    /// Limits the total cost, at the prices of the built-in catalog.
    pub fn of_money(money: Money) -> Self {
        Self::of(None, Some(money))
    }

    /// Limits both tokens and money.
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

    /// Charges the calls in a recording, except the first `skip` ones, which were paid for elsewhere.
    ///
    /// Failed calls are charged as they would have been when they were made. Every use of this method charges
    /// again.
    pub fn charge_recording(self, recording: &Recording, skip: usize) -> Self {
        for call in recording.recorded_calls(skip) {
            let amount = self.max_cost(&call.model, &call.request).unwrap_or_default();
            let mut reservation = Reservation { budget: &self, amount, used: amount };
            reservation.settle(&call.model, &call.outcome);
        }
        self
    }

    /// Returns the amount spent so far, without the reservations of calls in flight.
    pub fn spent(&self) -> Spending {
        lock(&self.shared.account).spent()
    }

    /// Waits for this call's turn, then until it fits next to the calls in flight.
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
    /// If the budget limits money and the model's price is unknown.
    pub fn max_cost(&self, model: &ModelId, request: &Request) -> Result<Spending, Error> {
        let (input, output) =
            (overflow::estimate_tokens(&model.provider, request), u64::from(request.max_tokens));
        let read = Usage { input, output, ..Usage::default() };
        // Writing to a prompt cache costs more than reading.
        let written = Usage { cache_written: input, ..read };
        let money = self.price(model, &read).max(self.price(model, &written));
        if money.is_none() && lock(&self.shared.account).limits_money() {
            return Err(Error::new(ErrorKind::Budget, model.clone(), NO_PRICE));
        }
        let tokens = input.saturating_add(output);
        Ok(Spending { tokens, money: money.unwrap_or_default() })
    }

    fn price(&self, model: &ModelId, usage: &Usage) -> Option<Money> {
        self.catalog.entry(model)?.cost(usage)
    }
}

const NO_PRICE: &str = "the model's price is unknown, so a money budget cannot be enforced; \
    limit tokens instead, or add the price to a catalog";

/// Reserved amount of a call in flight. Dropping it charges `used`, which is the full amount until it is settled.
struct Reservation<'a> {
    budget: &'a Budget,
    amount: Spending,
    used: Spending,
}

impl Reservation<'_> {
    fn settle(&mut self, model: &ModelId, outcome: &Result<Response, Error>) {
        match outcome {
            Ok(Response { usage, cost, .. }) => {
                let tokens = usage.map(|it| it.input.saturating_add(it.output));
                let money = cost.or_else(|| self.budget.price(model, usage.as_ref()?));
                self.used = Spending {
                    tokens: tokens.unwrap_or(self.amount.tokens),
                    money: money.unwrap_or(self.amount.money),
                };
            }
            Err(error) if is_free(error) => self.used = Spending::default(),
            Err(_) => {}
        }
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        lock(&self.budget.shared.account).settle(self.amount, self.used);
        self.budget.shared.released.notify_one();
    }
}

/// Returns whether the provider rejected the call before it started to answer, so that the call cost nothing.
///
/// An error inside a response with a success status is not such a rejection. Neither is a recording or journal that
/// cannot be written, because the call itself may have succeeded.
fn is_free(error: &Error) -> bool {
    let has_started = error.status.is_some_and(|it| (200..300).contains(&it));
    let is_rejection = matches!(
        error.kind,
        ErrorKind::Auth
            | ErrorKind::RateLimited
            | ErrorKind::Overloaded
            | ErrorKind::QuotaExhausted
            | ErrorKind::RequestTooLong
            | ErrorKind::NotFound
            | ErrorKind::BadRequest
            | ErrorKind::Unreachable
            | ErrorKind::Timeout(Phase::Connect)
            | ErrorKind::Budget
            | ErrorKind::NotRecorded
    );
    is_rejection && !has_started
}

impl Llm {
    /// Limits calls to a budget and charges their cost to it.
    ///
    /// Inside of [retries](Llm::retry) the budget sees every attempt, outside of them only the call as a whole.
    /// Outside of a [cache](Llm::cache) it also reserves for cached responses, which then cost nothing. A stream
    /// holds its reservation until it is read to its end or dropped. Use a budget only once in a stack of layers:
    /// the second layer would wait for the reservation of the first forever.
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
