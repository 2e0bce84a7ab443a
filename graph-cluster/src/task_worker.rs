//! Claims tasks of the runs of all workers, and extends their leases while they execute.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::{
    sync::{broadcast::error::RecvError, oneshot},
    task::{AbortHandle, Id, JoinError, JoinSet},
    time::{Instant, MissedTickBehavior, interval, sleep},
};

use crate::{
    leg::LegRunner,
    limits::POLL_INTERVAL,
    store::{Notice, TaskClaim, TaskFilter},
    task_execution::execute,
    task_writer::TaskWriter,
};

/// Maximum time to wait for more slots to become free before tasks are claimed.
const MAX_REFILL_DELAY: Duration = Duration::from_millis(50);

/// A task that this worker executes.
struct ActiveTask {
    claim: TaskClaim,
    abort: AbortHandle,
}

/// Executes tasks until the worker has drained. While it drains, claims only tasks of its own runs. `legs_ended`
/// completes when the worker executes no more legs.
pub(crate) async fn work(runner: Arc<LegRunner>, mut legs_ended: oneshot::Receiver<()>) {
    let mut tasks = TaskSet::new(runner.clone());
    let mut notices = runner.store.notices();
    let mut ticks = interval(runner.heartbeat_interval().min(POLL_INTERVAL));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut aborting = std::pin::pin!(runner.aborting());
    let mut has_legs = true;
    loop {
        tokio::select! {
            () = &mut aborting => break,
            _ = &mut legs_ended, if has_legs => has_legs = false,
            _ = ticks.tick() => {
                tasks.extend_leases().await;
                tasks.claim_stalled().await;
            }
            // A slot is free, so another task may be claimed.
            () = tasks.join_next() => tasks.refill().await,
            notice = notices.recv() => match notice {
                Ok(Notice::Task) => tasks.claim().await,
                Ok(Notice::Cancel(_)) => tasks.extend_leases().await,
                Ok(Notice::Lost) | Err(RecvError::Lagged(_)) => {
                    tasks.extend_leases().await;
                    tasks.claim().await;
                }
                Ok(_) => {}
                Err(RecvError::Closed) => return,
            },
        }
        if !has_legs && tasks.is_empty() {
            return;
        }
    }
    tasks.requeue().await;
}

/// The tasks that this worker executes.
struct TaskSet {
    runner: Arc<LegRunner>,
    writer: TaskWriter,
    executions: JoinSet<()>,
    active: BTreeMap<(String, String), ActiveTask>,
    /// Whether tasks were claimed since the last call of [`claim_stalled`](Self::claim_stalled).
    has_claimed: bool,
    /// Duration of the last claim.
    claim_time: Duration,
}

impl TaskSet {
    fn new(runner: Arc<LegRunner>) -> Self {
        let writer = TaskWriter::start(runner.store.clone());
        let (executions, active) = (JoinSet::new(), BTreeMap::new());
        Self { runner, writer, executions, active, has_claimed: false, claim_time: Duration::ZERO }
    }

    fn is_empty(&self) -> bool {
        self.executions.is_empty()
    }

    /// Waits for the next execution to end and removes it. Never returns if no execution is running.
    async fn join_next(&mut self) {
        match self.executions.join_next_with_id().await {
            Some(ended) => self.remove(ended),
            None => std::future::pending().await,
        }
    }

    fn remove(&mut self, ended: Result<(Id, ()), JoinError>) {
        let id = match ended {
            Ok((id, ())) => id,
            // The lease of an execution that panicked or was aborted is no longer extended.
            Err(error) => error.id(),
        };
        self.active.retain(|_, it| it.abort.id() != id);
    }

    /// Claims tasks for the slots of executions that have ended. First waits for as long as the last claim took, so
    /// that one statement claims the tasks for all executions that end at about the same time.
    async fn refill(&mut self) {
        sleep(self.claim_time.min(MAX_REFILL_DELAY)).await;
        while let Some(ended) = self.executions.try_join_next_with_id() {
            self.remove(ended);
        }
        self.claim().await;
    }

    /// Claims the fair share of this worker.
    async fn claim(&mut self) {
        self.claim_share(self.active.len()).await;
    }

    /// Claims an additional share of the tasks that no worker has claimed for a while, because other workers are busy,
    /// have less capacity, or have died.
    async fn claim_stalled(&mut self) {
        let held = if self.has_claimed { self.active.len() } else { 0 };
        self.has_claimed = false;
        self.claim_share(held).await;
    }

    /// Claims the fair share of this worker, minus `held` tasks.
    async fn claim_share(&mut self, held: usize) {
        let runner = &self.runner;
        let free = runner.options.task_capacity.saturating_sub(self.executions.len());
        if free == 0 {
            return;
        }
        let active: Vec<_> = self.active.values().map(|it| &it.claim).collect();
        let pools: Vec<String> = runner.options.fan_out.pools.iter().cloned().collect();
        let filter = TaskFilter {
            worker: &runner.worker,
            graphs: &runner.graphs(),
            pools: &pools,
            only_own_runs: runner.is_draining(),
            held,
            active: &active,
        };
        let (sent, lease) = (Instant::now(), runner.options.lease);
        let claimed = runner.store.claim_tasks(&filter, lease, free).await;
        self.claim_time = sent.elapsed();
        match claimed {
            // The leases have expired, so another worker may have claimed or even completed the tasks.
            Ok(claims) if sent.elapsed() >= lease && !claims.is_empty() => {
                tracing::warn!("the leases of claimed tasks expired before the database answered");
            }
            Ok(claims) => claims.into_iter().for_each(|it| self.start(it)),
            Err(error) => tracing::warn!(%error, "cannot claim tasks"),
        }
    }

    fn start(&mut self, claim: TaskClaim) {
        self.has_claimed = true;
        let (runner, writer, task) = (self.runner.clone(), self.writer.clone(), claim.clone());
        let abort = self.executions.spawn(async move { execute(&runner, &writer, &task).await });
        let key = (claim.run.clone(), claim.id.clone());
        self.active.insert(key, ActiveTask { claim, abort });
    }

    /// Extends the leases of all tasks, and stops the tasks that another worker has claimed or whose run was cancelled.
    async fn extend_leases(&mut self) {
        if self.active.is_empty() {
            return;
        }
        let claims: Vec<_> = self.active.values().map(|it| &it.claim).collect();
        let lease = self.runner.options.lease;
        match self.runner.store.extend_task_leases(&claims, lease).await {
            Ok(held) => self.active.retain(|key, task| {
                let is_held = held.contains(key);
                if !is_held {
                    task.abort.abort();
                }
                is_held
            }),
            Err(error) => tracing::warn!(%error, "cannot extend the leases of tasks"),
        }
    }

    /// Stops all executions and returns their tasks to the queue.
    async fn requeue(mut self) {
        self.executions.shutdown().await;
        let claims: Vec<_> = self.active.values().map(|it| &it.claim).collect();
        if let Err(error) = self.runner.store.requeue_tasks(&claims).await {
            tracing::warn!(%error, "cannot return tasks to the queue; their leases expire");
        }
    }
}
