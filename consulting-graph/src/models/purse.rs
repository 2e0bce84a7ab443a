//! What a run may spend, and the layer that keeps enough of it for the scores.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use llm::{
    Budget, Error, ErrorKind, Listener, Llm, Model, ModelId, Money, Recording, Request, Response,
};
use serde::{Deserialize, Serialize};

/// What a run may spend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Limit {
    /// Tokens, in and out together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Money.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub money: Option<Money>,
}

impl Limit {
    /// Whether there is none.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it leaves more than another limit does.
    pub(crate) fn exceeds(self, other: Self) -> bool {
        let is_more = |now: Option<u64>, then: Option<u64>| {
            then.is_some_and(|then| now.is_none_or(|now| now > then))
        };
        let nanos = |it: Option<Money>| it.map(|it| it.nanos());
        is_more(self.tokens, other.tokens) || is_more(nanos(self.money), nanos(other.money))
    }

    /// This limit, and where it has none the other one.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self { tokens: self.tokens.or(other.tokens), money: self.money.or(other.money) }
    }

    /// The smaller of two limits, of tokens and of money each.
    #[must_use]
    pub fn at_most(self, most: Self) -> Self {
        Self {
            tokens: self.tokens.into_iter().chain(most.tokens).min(),
            money: self.money.into_iter().chain(most.money).min(),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.tokens, self.money) {
            (None, None) => f.write_str("whatever it takes"),
            (Some(tokens), None) => write!(f, "{tokens} tokens"),
            (None, Some(money)) => write!(f, "{money}"),
            (Some(tokens), Some(money)) => write!(f, "{tokens} tokens and {money}"),
        }
    }
}

/// The budget of a run, and who draws on it.
#[derive(Debug)]
pub(super) struct Purse {
    budget: Budget,
    limit: Limit,
    makers: u64,
    /// Debates under way: for each, its scoring is held back.
    open: AtomicU64,
}

impl Purse {
    /// A budget in which what the recording holds is spent, except for its first so many calls; nothing without a
    /// limit, and where nobody is asked.
    pub(super) fn new(
        limit: Limit,
        makers: usize,
        recording: &Recording,
        taken_over: usize,
    ) -> Option<Self> {
        if recording.is_replay() {
            return None;
        }
        let budget = match (limit.tokens, limit.money) {
            (None, None) => return None,
            (Some(tokens), None) => Budget::of_tokens(tokens),
            (None, Some(money)) => Budget::of_money(money),
            (Some(tokens), Some(money)) => Budget::of_both(tokens, money),
        };
        let budget = budget.after(recording, taken_over);
        Some(Self { budget, limit, makers: makers as u64, open: AtomicU64::new(0) })
    }

    pub(super) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// A debate begins.
    pub(super) fn open(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    /// A debate is over.
    pub(super) fn close(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    /// How much is spent, in hundredths.
    pub(super) fn spent_percent(&self) -> Option<u64> {
        let spent = self.budget.spent();
        let tokens = self.limit.tokens.map(|it| spent.tokens.saturating_mul(100) / it.max(1));
        let money = self.limit.money;
        let money = money.map(|it| spent.money.nanos().saturating_mul(100) / it.nanos().max(1));
        tokens.max(money)
    }

    /// Whether a turn of a debate is not to be paid for any more: what is left is needed to score what is there.
    fn holds_back(&self, id: &ModelId, request: &Request) -> bool {
        let Ok(most) = self.budget.most(id, request) else { return false };
        // A scoring call reads about what this call reads, and all decision maker's turns of the round come too.
        let calls = 1 + 2 * self.makers * self.open.load(Ordering::Relaxed).max(1);
        let spent = self.budget.spent();
        let tokens = spent.tokens.saturating_add(most.tokens.saturating_mul(calls));
        let nanos = most.money.nanos().saturating_mul(calls).saturating_add(spent.money.nanos());
        self.limit.tokens.is_some_and(|it| tokens > it)
            || self.limit.money.is_some_and(|it| nanos > it.nanos())
    }
}

/// A model for the turns of debates, which come after scores. It stands below the recording: what it refuses is
/// refused again in a replay, and what is paid already is not.
#[derive(Debug)]
pub(super) struct Turns {
    pub(super) inner: Llm,
    pub(super) purse: Arc<Purse>,
}

#[async_trait]
impl Model for Turns {
    fn id(&self) -> ModelId {
        self.inner.id()
    }

    async fn call(
        &self,
        request: &Request,
        listener: &mut Listener<'_>,
    ) -> Result<Response, Error> {
        if self.purse.holds_back(&self.id(), request) {
            let why = "what is left of the budget is kept for scoring";
            return Err(Error::new(ErrorKind::Budget, self.id(), why));
        }
        self.inner.call(request, listener).await
    }
}

#[cfg(test)]
mod tests {
    use llm::{Llm, Money, RecordMode, Recording, Rule, Script, Scripted};

    use super::{Limit, Purse};

    #[test]
    fn the_smaller_limit_counts_of_tokens_and_of_money_each() {
        let money = |it| Some(Money::from_dollars(it));
        let told = Limit { tokens: Some(5), money: None };
        let most = Limit { tokens: Some(9), money: money(2.0) };
        assert_eq!(told.at_most(most), Limit { tokens: Some(5), money: money(2.0) });
        assert_eq!(most.at_most(told), told.at_most(most));
        assert_eq!(told.at_most(Limit::default()), told);
    }

    #[tokio::test]
    async fn what_was_paid_before_is_spent_and_what_was_taken_over_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls.jsonl");
        let open = |mode| Recording::open(&path, mode).unwrap();
        let script = Script::new("parrot").rule(Rule::text("Hello!"));
        let llm = Llm::new(Scripted::new(script).unwrap());
        let llm = llm.record(&open(RecordMode::Record));
        let usage = llm.generate("Hello?").await.unwrap().usage.unwrap();
        let limit = Limit { tokens: Some(2 * (usage.input + usage.output)), money: None };

        let recording = open(RecordMode::ReplayOrRecord);
        let purse = |limit, taken_over| Purse::new(limit, 3, &recording, taken_over);
        assert_eq!(purse(limit, 0).unwrap().spent_percent(), Some(50));
        assert_eq!(purse(limit, recording.calls()).unwrap().spent_percent(), Some(0));
        assert!(purse(Limit::default(), 0).is_none());
        assert!(Purse::new(limit, 3, &open(RecordMode::Replay), 0).is_none());
    }
}
