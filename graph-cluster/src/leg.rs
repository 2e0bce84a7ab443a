//! Executes legs of runs on a worker, under the run's fence.
//!
//! A leg ends when its run completes, fails, is cancelled or waits for an answer. It may be executed several times, by
//! different workers, if a worker dies. Each execution continues from the thread's last checkpoint.

use std::{fmt, time::Duration};

use graph_core::{RunControl, RunError, checkpoint::CheckpointError};
use tokio::{
    sync::{broadcast::error::RecvError, watch},
    time::{Instant, interval, sleep, timeout_at},
};
use tracing::{Instrument, info_span};

use crate::{
    error::ClusterError,
    event_sink::EventSink,
    fan_out::{FanOut, dispatch_tasks},
    graph::LegRequest,
    leg_end::LegEnd,
    limits::{MAX_ATTEMPTS, RETRY_DELAY},
    registered_graph::GraphRegistry,
    run::RunResult,
    run_status::RunStatus,
    store::{Claim, Heartbeat, Notice, RunStore},
    timer::pending_sleep,
    worker_options::WorkerOptions,
};

/// Number of heartbeats per lease.
const HEARTBEATS_PER_LEASE: u32 = 3;

/// Phase of a worker.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
enum Phase {
    Working,
    /// Runs stop at the end of their current step.
    Draining,
    /// Runs are dropped and continue on another worker from their last checkpoint.
    Aborting,
}

/// Executes legs for a [`Scheduler`](crate::Scheduler) until the worker shuts down.
pub struct LegRunner {
    pub(crate) store: RunStore,
    pub(crate) worker: String,
    pub(crate) graphs: GraphRegistry,
    pub(crate) options: WorkerOptions,
    phase: watch::Sender<Phase>,
    /// Number of legs that are executing.
    active: watch::Sender<usize>,
}

impl LegRunner {
    pub(crate) fn new(
        store: RunStore,
        worker: String,
        graphs: GraphRegistry,
        options: WorkerOptions,
    ) -> Self {
        let (phase, active) = (watch::Sender::new(Phase::Working), watch::Sender::new(0));
        Self { store, worker, graphs, options, phase, active }
    }

    /// Returns the graphs that this worker executes, as `name` or `name@version`.
    pub fn graphs(&self) -> Vec<String> {
        self.graphs.keys()
    }

    /// Returns once the worker starts to shut down. A scheduler then starts no new legs.
    pub async fn draining(&self) {
        let mut phase = self.phase.subscribe();
        // The sender lives as long as `self`.
        let _ = phase.wait_for(|it| *it >= Phase::Draining).await;
    }

    /// Returns whether the worker is shutting down.
    pub fn is_draining(&self) -> bool {
        *self.phase.borrow() >= Phase::Draining
    }

    /// Returns once no leg is executing.
    pub async fn idle(&self) {
        let _ = self.active.subscribe().wait_for(|it| *it == 0).await;
    }

    /// Returns once the worker drops the runs and tasks that are still executing.
    pub(crate) async fn aborting(&self) {
        let _ = self.phase.subscribe().wait_for(|it| *it == Phase::Aborting).await;
    }

    pub(crate) fn drain(&self) {
        self.phase.send_replace(Phase::Draining);
    }

    pub(crate) fn abort(&self) {
        self.phase.send_replace(Phase::Aborting);
    }

    pub(crate) fn heartbeat_interval(&self) -> Duration {
        self.options.lease / HEARTBEATS_PER_LEASE
    }

    /// Claims the leg of a ticket and executes it. Returns `None` if the leg has already ended.
    ///
    /// If an earlier run of the thread has lost its worker, executes the earlier run and returns an error, after which
    /// the scheduler submits the ticket again.
    #[cfg(feature = "restate")]
    pub(crate) async fn execute_ticket(
        &self,
        ticket: &crate::run::Ticket,
    ) -> Result<Option<LegEnd>, ClusterError> {
        let served = self.graphs.served();
        match self.store.claim_ticket(&self.worker, ticket, served, self.options.lease).await {
            Ok(Some(claim)) => Ok(Some(self.execute(&claim).await)),
            Ok(None) => Ok(None),
            Err(error @ ClusterError::ThreadBusy { .. }) => {
                let thread = &ticket.thread;
                if let Some(claim) = self
                    .store
                    .claim_expired(&self.worker, thread, served, self.options.lease)
                    .await?
                {
                    self.execute(&claim).await;
                }
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    /// Executes a claimed leg and stores how it ended.
    pub(crate) async fn execute(&self, claim: &Claim) -> LegEnd {
        let (run, thread) = (&claim.request.id, &claim.request.thread);
        let (graph, leg, fence) = (claim.graph_key(), claim.leg, claim.fence);
        let span = info_span!("leg", run, thread, graph, leg, worker = self.worker, claim = fence);
        self.options.set_parent(&span, claim.request.trace_parent.as_deref());
        self.execute_in_span(claim).instrument(span).await
    }

    async fn execute_in_span(&self, claim: &Claim) -> LegEnd {
        let _active = ActiveLeg::new(&self.active);
        let control = RunControl::new();
        let end = tokio::select! {
            end = self.run(claim, &control) => end,
            end = self.watch(claim, &control) => end,
        };
        let end = match end {
            // The run can be resumed as long as the thread still has this checkpoint.
            LegEnd::Ended(RunStatus::Failed, result) => {
                LegEnd::Ended(RunStatus::Failed, RunResult { head: claim.head, ..result })
            }
            end => end,
        };
        let sleep = match &end {
            LegEnd::Ended(RunStatus::Interrupted, result) => pending_sleep(&result.interrupts),
            _ => None,
        };
        let stored = match &end {
            LegEnd::Ended(status, result) => {
                self.store.end_leg(claim, *status, result, sleep.as_ref()).await
            }
            LegEnd::Drained => self.store.requeue(claim).await.map(|()| true),
            LegEnd::Retry(problem) => {
                tracing::warn!(run = claim.request.id, problem, "the leg will be executed again");
                self.store.reset_attempt(claim).await.map(|()| true)
            }
            LegEnd::Lost | LegEnd::Sleeping { .. } => Ok(false),
        };
        match stored {
            Ok(true) => sleep
                .map_or(end, |it| LegEnd::Sleeping { claims: claim.fence, delay: it.remaining() }),
            Ok(false) => {
                tracing::warn!(run = claim.request.id, "another worker has claimed the run");
                LegEnd::Lost
            }
            Err(error) => LegEnd::Retry(error.to_string()),
        }
    }

    /// Runs the graph until the leg ends.
    async fn run(&self, claim: &Claim, control: &RunControl) -> LegEnd {
        if claim.cancel {
            // A previous worker that is alive but disconnected still holds the thread's lease, which the next run
            // needs.
            return match self.evict(claim).await {
                Ok(()) => LegEnd::Ended(RunStatus::Cancelled, RunResult::default()),
                Err(error) => LegEnd::Retry(error.to_string()),
            };
        }
        if claim.attempts > MAX_ATTEMPTS {
            return LegEnd::failed(format!(
                "{MAX_ATTEMPTS} executions of this leg ended without a result, because the worker died or lost its \
                 connection; fix the cause, which the logs of the workers show, and resume the run"
            ));
        }
        let request = &claim.request;
        let key = claim.graph_key();
        let graph = self.graphs.find(&key).expect("only runs of registered graphs are claimed");
        let mut sink = match EventSink::open(&self.store, claim).await {
            Ok(sink) => sink,
            Err(error) => return LegEnd::Retry(error.to_string()),
        };
        let mut waiting = Instant::now();
        loop {
            let (tasks, posted) = FanOut::new(self.options.fan_out.clone());
            let leg = LegRequest {
                run: request,
                leg: claim.leg,
                is_repeated: claim.fence > 1,
                head: claim.head,
                answers: &claim.answers,
                control: control.clone(),
                tasks,
            };
            let executed = tokio::select! {
                executed = graph.execute(leg, &mut sink) => executed,
                end = dispatch_tasks(&self.store, claim, posted) => Ok(end),
            };
            match executed {
                Ok(end) => return end,
                Err(RunError::Cancelled) => {
                    return LegEnd::Ended(RunStatus::Cancelled, RunResult::default());
                }
                // The previous worker has used an answer after this worker read the thread. Read the thread again.
                Err(RunError::UnknownInterrupt { .. }) if claim.fence > 1 => {}
                Err(RunError::Checkpoint(CheckpointError::Busy { .. })) => {
                    // The database releases the lease of a worker that has died, but not the lease of a worker that is
                    // alive and disconnected.
                    if waiting.elapsed() > self.options.lease {
                        waiting = Instant::now();
                        if let Err(error) = self.evict(claim).await {
                            return LegEnd::Retry(error.to_string());
                        }
                    }
                }
                Err(error) if is_transient(&error) => return LegEnd::Retry(error.to_string()),
                Err(error) => return LegEnd::Ended(RunStatus::Failed, RunResult::failed(&error)),
            }
            sleep(RETRY_DELAY).await;
        }
    }

    /// Takes the checkpointer's lease on the thread from the worker that claimed the thread before.
    async fn evict(&self, claim: &Claim) -> Result<(), ClusterError> {
        if self.store.evict_lease_holder(&self.options.checkpoint_schema, claim).await? {
            tracing::warn!(run = claim.request.id, "evicted the thread's previous worker");
        }
        Ok(())
    }

    /// Extends the lease of the run and forwards requests to cancel or drain it. Returns when this worker must stop the
    /// run.
    async fn watch(&self, claim: &Claim, control: &RunControl) -> LegEnd {
        let run = &claim.request.id;
        let mut notices = self.store.notices();
        let mut beats = interval(self.heartbeat_interval());
        let mut held = Instant::now();
        let mut phase = self.phase.subscribe();
        loop {
            tokio::select! {
                _ = beats.tick() => {}
                Ok(()) = phase.changed() => {}
                notice = notices.recv() => match notice {
                    Ok(Notice::Cancel(id)) if id == *run => {}
                    Ok(Notice::Lost) | Err(RecvError::Lagged(_)) => {}
                    Ok(_) => continue,
                    Err(RecvError::Closed) => return LegEnd::Lost,
                },
            }
            let current = *phase.borrow();
            match current {
                Phase::Working => {}
                Phase::Draining => control.drain(),
                Phase::Aborting => return LegEnd::Drained,
            }
            let sent = Instant::now();
            match timeout_at(
                held + self.options.lease,
                self.store.heartbeat(claim, self.options.lease),
            )
            .await
            {
                Ok(Ok(Heartbeat::Held)) => held = sent,
                Ok(Ok(Heartbeat::Cancel)) => {
                    held = sent;
                    control.cancel();
                }
                // The database did not answer within the lease, so another worker may have claimed the run.
                Ok(Ok(Heartbeat::Lost)) | Err(_) => return LegEnd::Lost,
                Ok(Err(error)) => tracing::warn!(run, %error, "cannot extend the lease of a run"),
            }
        }
    }
}

/// Returns whether a run failed only because the checkpointer could not write at present.
fn is_transient(error: &RunError) -> bool {
    let error = match error {
        RunError::Checkpoint(error) => Some(error),
        // The node could not store the result of an external call.
        RunError::Node { error, .. } => {
            (&**error as &(dyn std::error::Error + 'static)).downcast_ref()
        }
        _ => None,
    };
    matches!(
        error,
        Some(
            CheckpointError::Storage(_)
                | CheckpointError::HeadMoved { .. }
                | CheckpointError::LeaseLost { .. }
        )
    )
}

impl fmt::Debug for LegRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LegRunner").field("worker", &self.worker).finish_non_exhaustive()
    }
}

/// Counts a leg until it ends or its future is dropped.
struct ActiveLeg<'a>(&'a watch::Sender<usize>);

impl<'a> ActiveLeg<'a> {
    fn new(count: &'a watch::Sender<usize>) -> Self {
        count.send_modify(|it| *it += 1);
        Self(count)
    }
}

impl Drop for ActiveLeg<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|it| *it -= 1);
    }
}
