//! Budget of a run, and the layer that reserves part of it for scoring.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use app_support::plural::counted;
use async_trait::async_trait;
use llm::{
    Budget, Error, ErrorKind, Listener, Llm, Model, ModelId, Money, Recording, Request, Response,
    Spending,
};
use serde::{Deserialize, Serialize};

use super::shares::{Amounts, Shares, Spent};
use crate::{moves::MoveId, offline::Task};

/// Spending limit of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Limit {
    /// Maximum number of tokens, input and output together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub money: Option<Money>,
}

impl Limit {
    /// Returns whether there is neither a token nor a cost limit.
    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }

    /// Returns whether this limit allows more tokens or more money than `other`.
    pub(crate) fn exceeds(self, other: Self) -> bool {
        let is_more = |(now, then): (Option<u64>, Option<u64>)| {
            then.is_some_and(|then| now.is_none_or(|now| now > then))
        };
        self.amounts().into_iter().zip(other.amounts()).any(is_more)
    }

    /// Returns this limit, with unset fields taken from `other`.
    pub fn or(self, other: Self) -> Self {
        Self { tokens: self.tokens.or(other.tokens), money: self.money.or(other.money) }
    }

    /// Returns the lower of two limits, separately for tokens and money.
    pub(crate) fn capped_at(self, cap: Self) -> Self {
        Self {
            tokens: self.tokens.into_iter().chain(cap.tokens).min(),
            money: self.money.into_iter().chain(cap.money).min(),
        }
    }

    fn amounts(self) -> Amounts {
        [self.tokens, self.money.map(|it| it.nanos())]
    }

    /// Returns the part of the limit that is not spent.
    pub(super) fn remaining(self, spent: Spent) -> Amounts {
        let [tokens, money] = self.amounts();
        let left = |limit: Option<u64>, spent| limit.map(|it| it.saturating_sub(spent));
        [left(tokens, spent[0]), left(money, spent[1])]
    }

    pub(super) fn is_exceeded_by(self, spent: Spent) -> bool {
        let is_exceeded = |(limit, spent): (Option<u64>, u64)| limit.is_some_and(|it| spent > it);
        self.amounts().into_iter().zip(spent).any(is_exceeded)
    }

    /// Returns how much of the limit is used, in percent.
    pub(super) fn used_percent(self, spent: Spent) -> Option<u64> {
        let percent = |(limit, spent): (Option<u64>, u64)| {
            limit.map(|it| spent.saturating_mul(100) / it.max(1))
        };
        self.amounts().into_iter().zip(spent).filter_map(percent).max()
    }

    /// Returns why a turn of a debate has to be refused: the remaining budget is needed for scoring, or the share of
    /// the debate does not cover the turn.
    ///
    /// Assumes that the rest of the round needs one turn and one scoring call per decision maker in each running
    /// debate, and that each of these calls is as expensive as the turn can be.
    pub(super) fn turn_refusal(
        self,
        spent: Spent,
        shares: &Shares,
        turn: PlannedTurn,
    ) -> Option<&'static str> {
        let needed =
            |debates: u64| turn.max_cost.map(|it| it.saturating_mul(1 + 2 * turn.makers * debates));
        let [tokens, money] = needed(turn.debates.max(1));
        let total = [spent[0].saturating_add(tokens), spent[1].saturating_add(money)];
        if self.is_exceeded_by(total) {
            return Some("the rest of the budget is reserved for scoring");
        }
        shares.refusal(turn.move_id?, needed(1))
    }

    /// Returns a budget with this limit, or `None` if there is no limit.
    pub(super) fn to_budget(self) -> Option<Budget> {
        match (self.tokens, self.money) {
            (None, None) => None,
            (Some(tokens), None) => Some(Budget::of_tokens(tokens)),
            (None, Some(money)) => Some(Budget::of_money(money)),
            (Some(tokens), Some(money)) => Some(Budget::of_both(tokens, money)),
        }
    }
}

/// A turn of a debate that has not been requested from a model yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlannedTurn {
    pub(super) max_cost: Spent,
    pub(super) move_id: Option<MoveId>,
    /// Number of decision makers.
    pub(super) makers: u64,
    /// Number of running debates.
    pub(super) debates: u64,
}

pub(super) fn to_spent(spending: Spending) -> Spent {
    [spending.tokens, spending.money.nanos()]
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.tokens, self.money) {
            (None, None) => f.write_str("no limit"),
            (Some(tokens), None) => f.write_str(&counted(tokens, "token", "tokens")),
            (None, Some(money)) => write!(f, "{money}"),
            (Some(tokens), Some(money)) => {
                write!(f, "{} and {money}", counted(tokens, "token", "tokens"))
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct RunBudget {
    budget: Budget,
    limit: Limit,
    makers: u64,
    /// Number of running debates. Part of the budget is reserved for the scoring of each of them.
    running_debates: AtomicU64,
    // A std mutex suffices, because it is locked briefly and never across an await.
    shares: Mutex<Shares>,
}

impl RunBudget {
    /// Creates a budget from which the calls in the recording are deducted, except for the first `inherited_calls`.
    /// Returns `None` if there is no limit, and for replays, which make no calls.
    pub(super) fn new(
        limit: Limit,
        makers: usize,
        recording: &Recording,
        inherited_calls: usize,
    ) -> Option<Self> {
        if recording.is_replay() {
            return None;
        }
        let budget = limit.to_budget()?.charge_recording(recording, inherited_calls);
        let (running_debates, shares) = (AtomicU64::new(0), Mutex::default());
        Some(Self { budget, limit, makers: makers as u64, running_debates, shares })
    }

    /// Divides the remaining budget among the debates about these moves.
    pub(super) fn share(&self, moves: impl IntoIterator<Item = MoveId>) {
        let remaining = self.limit.remaining(to_spent(self.budget.spent()));
        *self.shares() = Shares::new(remaining, moves);
    }

    fn shares(&self) -> MutexGuard<'_, Shares> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn shared(&self) -> &Budget {
        &self.budget
    }

    /// Reserves budget for the scoring of one more debate.
    pub(super) fn debate_started(&self) {
        self.running_debates.fetch_add(1, Ordering::Relaxed);
    }

    /// Releases the reservation of a debate and returns its unspent share to the other debates.
    pub(super) fn debate_ended(&self, move_id: MoveId) {
        self.running_debates.fetch_sub(1, Ordering::Relaxed);
        self.shares().finish(move_id);
    }

    /// Returns how much of the limit is used, in percent.
    pub(super) fn used_percent(&self) -> Option<u64> {
        self.limit.used_percent(to_spent(self.budget.spent()))
    }
}

/// Kind of calls that a model with a budget answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Calls {
    /// Turns of debates.
    Turns,
    Others,
}

/// A model that charges the calls of a debate to its share of the budget, and refuses turns that would exceed the share
/// or use the budget reserved for scoring. The recording layer wraps this model, so refusals are recorded and replayed,
/// and calls with a recorded answer never reach this model.
#[derive(Debug)]
pub(super) struct BudgetedModel {
    pub(super) inner: Llm,
    pub(super) budget: Arc<RunBudget>,
    pub(super) calls: Calls,
}

impl BudgetedModel {
    fn refusal(&self, request: &Request) -> Option<&'static str> {
        if self.calls == Calls::Others {
            return None;
        }
        let RunBudget { budget, limit, makers, running_debates, .. } = &*self.budget;
        let turn = PlannedTurn {
            max_cost: to_spent(budget.max_cost(&self.id(), request).ok()?),
            move_id: request.attached::<Task>().and_then(Task::move_id),
            makers: *makers,
            debates: running_debates.load(Ordering::Relaxed),
        };
        limit.turn_refusal(to_spent(budget.spent()), &self.budget.shares(), turn)
    }
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
        if let Some(reason) = self.refusal(request) {
            return Err(Error::new(ErrorKind::Budget, self.id(), reason));
        }
        let outcome = self.inner.call(request, listener).await;
        let move_id = request.attached::<Task>().and_then(Task::move_id);
        if let Some(move_id) = move_id.filter(|_| outcome.is_ok()) {
            let budget = &self.budget.budget;
            let max_cost = budget.max_cost(&self.id(), request).unwrap_or_default();
            let cost = budget.actual_cost(&self.id(), max_cost, &outcome);
            self.budget.shares().charge(move_id, to_spent(cost));
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use async_trait::async_trait;
    use llm::{
        Error, Listener, Llm, Model, ModelId, Money, RecordMode, Recording, Request, Response,
        Scripted,
    };

    use super::{BudgetedModel, Calls, Limit, RunBudget};
    use crate::{
        config::{Config, DEFAULT},
        moves::{MoveDraft, MoveId},
        offline::{DebatedMove, Task, Work},
    };

    /// A model that does not report its tokens.
    #[derive(Debug)]
    struct UncountedModel;

    #[async_trait]
    impl Model for UncountedModel {
        fn id(&self) -> ModelId {
            ModelId::new("test", "model")
        }

        async fn call(
            &self,
            request: &Request,
            listener: &mut Listener<'_>,
        ) -> Result<Response, Error> {
            let scripted = Llm::new(Scripted::new("parrot", |_| "Hello!"));
            Ok(Response { usage: None, cost: None, ..scripted.call(request, listener).await? })
        }
    }

    #[tokio::test]
    async fn unreported_tokens_are_charged_to_the_share_of_a_debate() {
        let folder = tempfile::tempdir().unwrap();
        let recording = folder.path().join("calls.jsonl");
        let recording = Recording::open(recording, RecordMode::Record).unwrap();
        let limit = Limit { tokens: Some(100_000), money: None };
        let budget = Arc::new(RunBudget::new(limit, 3, &recording, 0).unwrap());
        let move_id = MoveId(1);
        budget.share([move_id]);
        let draft = MoveDraft::default();
        let debated = Arc::new(DebatedMove { move_id, draft, evidence: Vec::new() });
        let agent = Config::parse(DEFAULT).unwrap().critic;
        let task = Task { agent, work: Work::Summary { debated } };
        let inner = Llm::new(UncountedModel);
        let model = BudgetedModel { inner, budget: budget.clone(), calls: Calls::Others };
        let request = Request::new("Hello?").max_tokens(1000).attach(task);
        Llm::new(model).generate(request).await.unwrap();
        assert_eq!(budget.shares().refusal(move_id, [98_000, 0]), None);
        assert!(budget.shares().refusal(move_id, [99_500, 0]).is_some());
    }

    #[test]
    fn the_lower_limit_applies_to_tokens_and_money_separately() {
        let money = |it| Some(Money::from_dollars(it));
        let own = Limit { tokens: Some(5), money: None };
        let cap = Limit { tokens: Some(9), money: money(2.0) };
        assert_eq!(own.capped_at(cap), Limit { tokens: Some(5), money: money(2.0) });
        assert_eq!(cap.capped_at(own), own.capped_at(cap));
        assert_eq!(own.capped_at(Limit::default()), own);
    }

    #[tokio::test]
    async fn recorded_calls_count_towards_the_limit_unless_inherited() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls.jsonl");
        let open = |mode| Recording::open(&path, mode).unwrap();
        let llm = Llm::new(Scripted::new("parrot", |_| "Hello!"));
        let llm = llm.record(&open(RecordMode::Record));
        let usage = llm.generate("Hello?").await.unwrap().usage.unwrap();
        let limit = Limit { tokens: Some(2 * (usage.input + usage.output)), money: None };

        let recording = open(RecordMode::ReplayOrRecord);
        let budget = |limit, inherited_calls| RunBudget::new(limit, 3, &recording, inherited_calls);
        assert_eq!(budget(limit, 0).unwrap().used_percent(), Some(50));
        assert_eq!(budget(limit, recording.call_count()).unwrap().used_percent(), Some(0));
        assert!(budget(Limit::default(), 0).is_none());
        assert!(RunBudget::new(limit, 3, &open(RecordMode::Replay), 0).is_none());
    }
}
