//! Budget of a run on a cluster. All its workers share one account, which is in the database of the cluster.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use app_support::run_id::random_hex;
use async_trait::async_trait;
use graph_cluster::{ClusterError, RunStore};
use llm::{Budget, Error, ErrorKind, Listener, Llm, Model, ModelId, Request, Response, Spending};
use tokio::time::sleep;

use super::{
    budget::{Calls, Limit, to_spent},
    shared_account::{Admission, PlannedCall, SharedAccount},
};
use crate::{moves::MoveId, offline::Task};

/// Name of the account among the shared values of the run.
const ACCOUNT: &str = "spending";
/// Delay before the account is read again while the calls in flight may use all of the budget, or while the database
/// fails.
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// Budget that the workers of a run share.
#[derive(Debug)]
pub(crate) struct SharedBudget {
    store: RunStore,
    run: String,
    /// Number of decision makers.
    makers: u64,
    /// Used only to look up the prices of the models; no call is charged to this budget.
    prices: Budget,
    /// Used share of the limit at the last update, in percent.
    used_percent: AtomicU64,
}

impl SharedBudget {
    /// Sets the limit of a run. Unset fields of the new limit keep their current values.
    pub(crate) async fn set_limit(
        store: &RunStore,
        run: &str,
        limit: Limit,
    ) -> Result<(), ClusterError> {
        let set = |account: &mut SharedAccount| account.limit = limit.or(account.limit);
        store.update_value(run, ACCOUNT, set).await
    }

    /// Opens the budget of a run. Returns `None` if the run has no limit. Waits while the database is unreachable.
    pub(crate) async fn open(
        store: &RunStore,
        run: &str,
        makers: usize,
    ) -> Result<Option<Self>, ClusterError> {
        let account: Option<SharedAccount> = loop {
            match store.read_value(run, ACCOUNT).await {
                Err(error @ ClusterError::Database(_)) => {
                    tracing::warn!(run, %error, "cannot read the budget; retrying");
                    sleep(RETRY_DELAY).await;
                }
                account => break account?,
            }
        };
        let account = account.unwrap_or_default();
        Ok(account.limit.to_budget().map(|prices| Self {
            store: store.clone(),
            run: run.to_owned(),
            makers: makers as u64,
            prices,
            used_percent: AtomicU64::new(account.used_percent().unwrap_or_default()),
        }))
    }

    pub(super) fn used_percent(&self) -> u64 {
        self.used_percent.load(Ordering::Relaxed)
    }

    /// Divides the remaining budget among the debates about these moves.
    pub(super) async fn share(&self, moves: &[MoveId]) {
        self.update_or_warn(|account| account.share(moves)).await;
    }

    /// Returns the unspent share of a debate to the other debates.
    pub(super) async fn end_debate(&self, move_id: MoveId) {
        self.update_or_warn(|account| account.end_debate(move_id)).await;
    }

    /// Updates the account. Waits while the database is unreachable.
    async fn update<R: Send>(
        &self,
        mut update: impl FnMut(&mut SharedAccount) -> R + Send,
    ) -> Result<R, ClusterError> {
        loop {
            let updated = self.store.update_value(&self.run, ACCOUNT, |it: &mut SharedAccount| {
                (update(it), it.used_percent())
            });
            match updated.await {
                Ok((result, used_percent)) => {
                    self.used_percent.store(used_percent.unwrap_or_default(), Ordering::Relaxed);
                    return Ok(result);
                }
                Err(error @ ClusterError::Database(_)) => {
                    tracing::warn!(run = self.run, %error, "cannot update the budget; retrying");
                    sleep(RETRY_DELAY).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn update_or_warn(&self, update: impl FnMut(&mut SharedAccount) + Send) {
        if let Err(error) = self.update(update).await {
            tracing::warn!(run = self.run, %error, "cannot update the budget");
        }
    }

    /// Reserves the maximum cost of a call, and returns the id of the reservation. Waits until the budget covers the
    /// call on top of the calls in flight.
    async fn reserve(&self, call: PlannedCall) -> Result<String, String> {
        let id = random_hex(8).map_err(|it| it.to_string())?;
        loop {
            let call = PlannedCall { now: now(), ..call };
            let admission = self.update(|account| account.admit(&id, call)).await;
            match admission.map_err(|it| format!("cannot read the budget of the run: {it}"))? {
                Admission::Admitted => return Ok(id),
                Admission::Refused(reason) => return Err(reason.to_owned()),
                Admission::Wait => sleep(RETRY_DELAY).await,
            }
        }
    }
}

fn now() -> u64 {
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    time.unwrap_or_default().as_secs()
}

/// A model whose calls are charged to the budget of a run. If a call is dropped, or its worker dies, its maximum cost
/// stays charged.
#[derive(Debug)]
pub(super) struct SharedBudgetModel {
    pub(super) inner: Llm,
    pub(super) budget: Arc<SharedBudget>,
    pub(super) calls: Calls,
}

impl SharedBudgetModel {
    fn plan(&self, request: &Request, max_cost: Spending) -> PlannedCall {
        PlannedCall {
            max_cost: to_spent(max_cost),
            move_id: request.attached::<Task>().and_then(Task::move_id),
            makers_of_turn: (self.calls == Calls::Turns).then_some(self.budget.makers),
            now: 0,
        }
    }
}

#[async_trait]
impl Model for SharedBudgetModel {
    fn id(&self) -> ModelId {
        self.inner.id()
    }

    async fn call(
        &self,
        request: &Request,
        listener: &mut Listener<'_>,
    ) -> Result<Response, Error> {
        let (id, budget) = (self.id(), &self.budget);
        let max_cost = budget.prices.max_cost(&id, request)?;
        let reserved = budget.reserve(self.plan(request, max_cost)).await;
        let call = reserved.map_err(|reason| Error::new(ErrorKind::Budget, id.clone(), reason))?;
        let outcome = self.inner.call(request, listener).await;
        let cost = to_spent(budget.prices.actual_cost(&id, max_cost, &outcome));
        budget.update_or_warn(|account| account.settle(&call, cost)).await;
        outcome
    }
}
