//! The budget: tokens and money, reserved before a call and settled after it.

mod account;

use std::sync::{Arc, LazyLock, Mutex};

use async_trait::async_trait;
use tokio::sync::{Mutex as Turnstile, Notify};

pub use self::account::Spent;
use self::account::{Account, Reservable};
use crate::lock::lock;
use crate::{
    Catalog, Error, ErrorKind, Listener, Llm, Model, ModelId, Money, Phase, Recording, Request,
    Response, Usage, overflow,
};

/// How much a run may spend. Clones are the same budget; so are all models that spend from it.
///
/// Before a call as much is reserved as it can come to: the estimate of its request, and all tokens that the
/// answer may have, at the catalog's prices. After the call the reservation gives way to what was used. So calls
/// at once never spend more together than there is, as far as their estimates hold; what one of them uses beyond
/// its estimate is spent all the same, and the next call finds that much less.
///
/// A call that does not fit because of others under way waits for them, in the order in which calls came. A call
/// that does not fit beside what is spent already fails with [`ErrorKind::Budget`], and so does one whose price
/// is not known if the budget is in money.
///
/// What is not known is taken as spent: a call that is dropped, one that fails after the provider may have begun
/// to answer, and one whose provider does not say what it used, cost what was reserved for them.
#[derive(Clone, Debug)]
pub struct Budget {
    catalog: Arc<Catalog>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Where calls stand in line. Who holds it is the next to reserve.
    turnstile: Turnstile<()>,
    /// Told when a reservation is settled.
    settled: Notify,
    // A std mutex: held for a moment, never over an await.
    account: Mutex<Account>,
}

impl Budget {
    /// So many tokens, those of requests and answers together.
    pub fn of_tokens(tokens: u64) -> Self {
        Self::of(Some(tokens), None)
    }

    /// So much money, at the prices of the built-in catalog.
    pub fn of_money(money: Money) -> Self {
        Self::of(None, Some(money))
    }

    /// So many tokens and so much money: whichever is spent first ends it.
    pub fn of_both(tokens: u64, money: Money) -> Self {
        Self::of(Some(tokens), Some(money))
    }

    fn of(tokens: Option<u64>, money: Option<Money>) -> Self {
        static BUILTIN: LazyLock<Arc<Catalog>> =
            LazyLock::new(|| Arc::new(Catalog::builtin().clone()));
        let shared = Shared {
            turnstile: Turnstile::new(()),
            settled: Notify::new(),
            account: Mutex::new(Account::new(tokens, money)),
        };
        Self { catalog: BUILTIN.clone(), shared: Arc::new(shared) }
    }

    /// Takes prices from this catalog.
    pub fn priced_by(mut self, catalog: Catalog) -> Self {
        self.catalog = Arc::new(catalog);
        self
    }

    /// Takes as spent what the calls in a recording cost, without the first so many of them: those somebody else paid.
    ///
    /// Calls that failed count as they would have when they were made. They count as often as this is told.
    pub fn after(self, recording: &Recording, first: usize) -> Self {
        for call in recording.held_after(first) {
            let amount = self.most(&call.model, &call.request).unwrap_or_default();
            let mut reservation = Reservation { budget: &self, amount, used: amount };
            reservation.settle(&call.model, &call.outcome);
        }
        self
    }

    /// What is spent so far, without what calls under way have reserved.
    pub fn spent(&self) -> Spent {
        lock(&self.shared.account).spent()
    }

    /// Waits in line, then until the call fits beside others under way.
    async fn reserve(&self, model: ModelId, request: &Request) -> Result<Reservation<'_>, Error> {
        let amount = self.most(&model, request)?;
        let _turn = self.shared.turnstile.lock().await;
        loop {
            let reservable = lock(&self.shared.account).reserve(amount);
            match reservable {
                Reservable::Now => return Ok(Reservation { budget: self, amount, used: amount }),
                Reservable::Later => self.shared.settled.notified().await,
                Reservable::Never(problem) => {
                    return Err(Error::new(ErrorKind::Budget, model, problem));
                }
            }
        }
    }

    /// The most that a call can come to: what is reserved for it.
    ///
    /// # Errors
    ///
    /// If the budget is in money and the model's price is not known.
    pub fn most(&self, model: &ModelId, request: &Request) -> Result<Spent, Error> {
        let (input, output) =
            (overflow::estimate_tokens(&model.provider, request), u64::from(request.max_tokens));
        let read = Usage { input, output, ..Usage::default() };
        // To write to a prompt cache costs more than to read.
        let written = Usage { cache_written: input, ..read };
        let money = self.price(model, &read).max(self.price(model, &written));
        if money.is_none() && lock(&self.shared.account).is_in_money() {
            return Err(Error::new(ErrorKind::Budget, model.clone(), NO_PRICE));
        }
        let tokens = input.saturating_add(output);
        Ok(Spent { tokens, money: money.unwrap_or_default() })
    }

    fn price(&self, model: &ModelId, usage: &Usage) -> Option<Money> {
        self.catalog.entry(model)?.cost(usage)
    }
}

const NO_PRICE: &str = "its price is not known, so no budget in money can hold; \
    limit the tokens, or give its price in a catalog";

/// What is set aside for a call under way. When it is dropped, `used` is spent of it: all, unless it was settled.
struct Reservation<'a> {
    budget: &'a Budget,
    amount: Spent,
    used: Spent,
}

impl Reservation<'_> {
    fn settle(&mut self, model: &ModelId, outcome: &Result<Response, Error>) {
        match outcome {
            Ok(Response { usage, cost, .. }) => {
                let tokens = usage.map(|it| it.input.saturating_add(it.output));
                let money = cost.or_else(|| self.budget.price(model, usage.as_ref()?));
                self.used = Spent {
                    tokens: tokens.unwrap_or(self.amount.tokens),
                    money: money.unwrap_or(self.amount.money),
                };
            }
            Err(error) if was_free(error) => self.used = Spent::default(),
            Err(_) => {}
        }
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        lock(&self.budget.shared.account).settle(self.amount, self.used);
        self.budget.shared.settled.notify_one();
    }
}

/// Whether a call failed before the provider began to answer.
///
/// One that failed inside an answer, with a status of success, did not; nor need one whose recording or journal
/// could not be written.
fn was_free(error: &Error) -> bool {
    let has_begun = error.status.is_some_and(|it| (200..300).contains(&it));
    let is_before = matches!(
        error.kind,
        ErrorKind::Auth
            | ErrorKind::RateLimited
            | ErrorKind::Overloaded
            | ErrorKind::Spent
            | ErrorKind::TooLong
            | ErrorKind::NotFound
            | ErrorKind::BadRequest
            | ErrorKind::Unreachable
            | ErrorKind::Timeout(Phase::Connect)
            | ErrorKind::Budget
            | ErrorKind::NotRecorded
    );
    is_before && !has_begun
}

impl Llm {
    /// Makes only calls that the budget allows, and counts what they cost.
    ///
    /// Below [retries](Llm::retry) it counts every attempt, above them only the last one. Above a
    /// [cache](Llm::cache) it reserves for answers that turn out to cost nothing. A stream keeps its reservation
    /// until it is read to its end or dropped, also while nobody reads it. One budget stands in a stack
    /// of layers once: a second time it would wait for its own reservation.
    pub fn budget(self, budget: &Budget) -> Self {
        Self::new(Budgeted { inner: self, budget: budget.clone() })
    }
}

#[derive(Debug)]
struct Budgeted {
    inner: Llm,
    budget: Budget,
}

#[async_trait]
impl Model for Budgeted {
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
